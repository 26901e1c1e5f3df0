/**
 * `capstan deploy --preview`: runs its own stack on a temporary folder, with its own container network and one
 * container for each endpoint; removes everything when it ends.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type Docker from 'dockerode';

import { messageOf } from '../../lib/to-error.ts';
import { connectGateway } from '../../client/gateway-client.ts';
import type { Built } from '../../compiler/build/build.ts';
import type { Environment, Settings } from '../../terminal/config.ts';
import { deployApplication } from '../deploy/deploy.ts';
import { nextCommands, printEndpoints } from '../deploy/report.ts';
import { apiKey, apiKeyForShell, ownSettings } from '../../client/local.ts';
import { runStack } from '../../supervisor/stack.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { containersRunning } from './containers.ts';
import { connectEngine, createNetwork, knownPreviews, localImages, removePreview, type PreviewName } from './engine.ts';
import { createPreviewFolder, isDead, previewFolders, removePreviewFolder } from './folder.ts';
import { planPreview } from './specs.ts';

/** A driver that hangs offers no GPU, ms. */
const GPU_MS = 15_000;

export interface PreviewOptions {
  readonly settings: Settings;
  /** 0 picks a free one. */
  readonly httpPort: number;
  readonly environment: Environment;
  /** Name of the environment to deploy into. */
  readonly into: string;
  /** For endpoints without their own image. */
  readonly image: string | undefined;
  readonly asJson: boolean;
  readonly terminal: Terminal;
  readonly build: () => Promise<Built>;
}

/**
 * Runs until Ctrl+C; returns the exit code of `capstan up`.
 * @throws CapstanError UNAVAILABLE without a container engine, CONFIG without an image, and the errors of build, stack
 * and deployment.
 */
export async function runPreview(options: PreviewOptions): Promise<number> {
  const { settings, terminal, image } = options;
  const engine = await connectEngine(settings.containerSocket);
  await removeLeftovers(engine, terminal);
  const { application, artifact } = await options.build();
  const plan = planPreview(application, { image, localImages: await localImages(engine), hasGpu: await hasGpu() });
  for (const name of plan.leftOut) terminal.warn(`${name} requires a GPU, which this host does not have: skipped`);

  const ending = endSignals();
  const preview = createPreviewFolder();
  try {
    const network = await networkOf(engine, preview, terminal);
    if (ending.came()) return 0;
    return await runStack({
      settings: settingsOf(options, preview),
      environment: environmentOf(options, preview, network),
      terminal,
      whenReady: async ({ url }, signal) => serve({ application: plan.application, artifact }, options, { preview, url }, signal),
    });
  } finally {
    await removePreview(engine, preview.name).catch((error: unknown) => {
      terminal.warn(`removing ${preview.name} from the container engine failed: ${messageOf(error)}; the next preview tries again`);
    });
    await removePreviewFolder(preview);
    ending.release();
    terminal.done('preview removed');
  }
}

/** The stack of a preview, and the URL of its gateway. */
interface PreviewStack {
  readonly preview: PreviewName;
  readonly url: string;
}

async function serve(built: Built, options: PreviewOptions, { preview, url }: PreviewStack, signal: AbortSignal): Promise<void> {
  const { terminal, into, asJson } = options;
  const { application, artifact } = built;
  const own = ownSettings(settingsOf(options, preview));
  const client = connectGateway(url, apiKey(own));
  const { endpoints: rows } = await deployApplication(client, { application, artifact, environment: into }, terminal);
  if (asJson) terminal.data(JSON.stringify(rows, null, 2));
  printEndpoints(rows, terminal);
  await containersRunning(client, rows, terminal, signal);
  // The last one needs no tool: the tool's own calls would go to the service that this user runs otherwise.
  const next = nextCommands(application, rows, apiKeyForShell(own, undefined)).at(-1);
  if (next !== undefined) terminal.next(next);
  terminal.line('Press Ctrl+C to stop it and remove its containers and its network.');
}

interface Network {
  /** In the form of CAPSTAN_CONTAINER_NETWORK. */
  readonly name: string;
  /**
   * Address on which the gateway listens: that of the network if this host has it, so that containers can call each
   * other.
   */
  readonly host: string | undefined;
}

async function networkOf(engine: Docker, preview: PreviewName, terminal: Terminal): Promise<Network> {
  try {
    const { gateway } = await createNetwork(engine, preview);
    const isHere = gateway !== undefined && (await canListen(gateway));
    if (!isHere) terminal.warn('this host has no address in the container network: functions cannot call other endpoints');
    return { name: preview.name, host: isHere ? gateway : undefined };
  } catch (error) {
    terminal.warn(
      `creating a network in the engine failed (${messageOf(error)}): containers use its bridge, if it has one; functions cannot call other endpoints`,
    );
    return { name: 'auto', host: undefined };
  }
}

/** Engines in a virtual machine, and rootless engines, have their networks elsewhere. */
async function canListen(host: string): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(0, host);
    await once(server, 'listening');
    return true;
  } catch {
    return false; // not an address of this host
  } finally {
    server.close();
  }
}

function settingsOf({ settings, httpPort }: PreviewOptions, { folder }: PreviewName): Settings {
  const { apiKey: _key, scheduler: _scheduler, url: _url, ...rest } = settings;
  return { ...rest, httpPort, grpcPort: 0, dataDir: join(folder, 'data') };
}

/** Of the settings of the user's own service, only those for creating containers on this host apply. */
function environmentOf({ environment, settings }: PreviewOptions, { name }: PreviewName, network: Network): Environment {
  const kept = Object.entries(environment.variables).filter(
    ([key]) => !key.startsWith('CAPSTAN_') || /^CAPSTAN_(CONTAINER_|REGISTRY_AUTH_FILE$|NVIDIA_SMI|DEBUG$)/.test(key),
  );
  return {
    ...environment,
    variables: {
      ...Object.fromEntries(kept),
      CAPSTAN_NODE_NAME: name,
      CAPSTAN_CONTAINER_SOCKET: settings.containerSocket,
      CAPSTAN_CONTAINER_NETWORK: network.name,
      // Exactly one container for each endpoint.
      CAPSTAN_CONTAINER_SPARES: '0',
      ...(network.host === undefined ? {} : { CAPSTAN_HTTP_HOST: network.host }),
    },
  };
}

/** Removes what killed previews left. */
async function removeLeftovers(engine: Docker, terminal: Terminal): Promise<void> {
  const known = new Map([...(await knownPreviews(engine)), ...(await previewFolders())].map((each) => [each.name, each]));
  for (const preview of known.values()) {
    if (!(await isDead(preview))) continue;
    try {
      await removePreview(engine, preview.name);
      await removePreviewFolder(preview);
      terminal.warn(`removed ${preview.name}, left by a preview that was killed`);
    } catch (error) {
      // A failure must not stop this preview.
      terminal.warn(`removing ${preview.name}, left by a preview that was killed, failed: ${messageOf(error)}`);
    }
  }
}

async function hasGpu(): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)('nvidia-smi', ['--query-gpu=uuid', '--format=csv,noheader'], { timeout: GPU_MS });
    return stdout.trim() !== '';
  } catch {
    return false; // no driver, or one that does not work
  }
}

/**
 * From the first resource created to the last one removed, a signal must not end this process; the stack handles
 * signals itself.
 */
function endSignals(): { came: () => boolean; release: () => void } {
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  let came = false;
  const onSignal = (): void => {
    came = true;
  };
  for (const name of names) process.on(name, onSignal);
  return {
    came: () => came,
    release: () => {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
