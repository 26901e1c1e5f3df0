import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { buildOptions, buildOptionSpecs } from '../command/build-options.ts';
import { projectFolder } from '../../compiler/build/notebook.ts';
import { yesOption, type Command, type Invocation } from '../command/command.ts';
import { readDuration } from '../command/duration.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, keySource, readSettings, type Settings } from '../../terminal/config.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { connect } from '../../client/gateway.ts';
import { apiKeyForShell } from '../../client/local.ts';
import type { Built, BuildOptions } from '../../compiler/build/build.ts';
import { pressedKey } from '../../terminal/key-press.ts';
import { sizeText } from '../../terminal/size-text.ts';

/** How long to wait until a deployment serves, s. */
const WAIT_S = 600;

/** `capstan deploy <folder>`: builds the folder, uploads it, creates or updates its endpoints. */
export const deploy: Command = {
  name: 'deploy',
  summary: 'Build a folder, upload the artifact, and create or update its endpoints.',
  arguments: [
    {
      name: 'folder',
      description: 'folder that declares endpoints or contains tool_manifest.json, or a notebook; default: the working folder',
      optional: true,
    },
  ],
  options: [
    { flags: '--env <environment>', description: 'environment to deploy into; created if it does not exist', default: 'default' },
    { flags: '--dry-run', description: 'build and print what the deployment would change, without changing anything' },
    { flags: '--preview', description: 'run the endpoints on this host instead, one container each, until Ctrl+C' },
    { flags: '--image <image>', description: 'with --preview: container image of endpoints without one' },
    ...buildOptionSpecs,
    { flags: '--strict', description: 'refuse endpoints whose GPUs, CPU size, Python or Node no connected node has, instead of a warning' },
    {
      flags: '--keep-settings',
      description: 'keep the present values of settings that were changed after the last deployment, by endpoints set or the console',
    },
    yesOption,
    { flags: '--no-wait', description: 'end once the endpoints are created or updated, without waiting until they serve' },
    { flags: '--wait-timeout <duration>', description: 'how long to wait until they serve, such as 90s or 30m', default: '10m' },
    { flags: '--allow-missing', description: 'deploy even if no connected node has the base image packages that the code imports' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['deploy', 'deploy hello --env staging', 'deploy analysis.ipynb', 'deploy hello --dry-run', 'deploy hello --preview'],
  async run({ args, options, env, terminal }) {
    const folder = await projectFolder(args[0], env.cwd, terminal);
    const settings = readSettings(options, env, folder);
    if (flagOption(options, 'preview')) return preview(folder, settings, { options, env, terminal });
    if (flagOption(options, 'dryRun')) return printChanges(folder, settings, { options, env, terminal });
    if (options['image'] !== undefined)
      throw new CapstanError('INVALID_ARGUMENT', '--image: requires --preview; a deployed endpoint sets its image in its settings', {
        field: '--image',
      });
    const [
      { build },
      { withFolder },
      { deployApplication },
      { settingsToKeep },
      { fittingBuild },
      { checkHardware },
      { requiredLanguages },
      { listMachineTypes },
      { nextCommands, printEndpoints, publicWarning },
      { explainFailures, waitForReleases },
      { readSource },
    ] = await Promise.all([
      import('../../compiler/build/build.ts'),
      import('../../compiler/build/folder-lock.ts'),
      import('../deploy/deploy.ts'),
      import('../deploy/present-settings.ts'),
      import('../deploy/fleet.ts'),
      import('../deploy/fleet-hardware.ts'),
      import('../../compiler/build/language-needs.ts'),
      import('../api/nodes.ts'),
      import('../deploy/report.ts'),
      import('../deploy/wait.ts'),
      import('../deploy/source.ts'),
    ]);
    const isWaiting = options['wait'] !== false;
    const timeoutMs = (readDuration('--wait-timeout', textOption(options, 'waitTimeout')) ?? WAIT_S) * 1_000;
    const into = textOption(options, 'env') ?? 'default';
    const service = serviceOf(settings, { options, env, terminal });
    terminal.step(`building ${folder}`);
    const source = await readSource(folder, terminal, env.variables);
    const { application, deployed } = await withFolder(folder, terminal, async () => {
      const builtWith = async (changes: Partial<BuildOptions>): Promise<Built> => {
        const made = await build(folder, { ...buildOptions(options, env, folder), admit: () => service.reach(into), ...changes }, terminal);
        const { files, size, digest } = made.artifact;
        terminal.done(`${files} files, ${sizeText(size)}, sha256 ${digest.slice(0, 12)}`);
        return made;
      };
      const isLive = terminal.isLive && process.stdin.isTTY;
      const first = await builtWith({});
      const client = await service.client();
      let listed: ReturnType<typeof listMachineTypes> | undefined;
      const types = async (): ReturnType<typeof listMachineTypes> => (listed ??= listMachineTypes(client));
      const required = await requiredLanguages(folder);
      await checkHardware(first.application, { types, required, isStrict: flagOption(options, 'strict'), terminal });
      const built = await fittingBuild(first, {
        types,
        allowMissing: flagOption(options, 'allowMissing'),
        bundled: async () => builtWith({ bundleBasePackages: true }),
        pressed: isLive ? async () => pressedKey(process.stdin) : null,
        terminal,
      });
      const keep = await settingsToKeep(
        client,
        { ...built, environment: into },
        { isKeeping: flagOption(options, 'keepSettings'), isAsking: isLive && !flagOption(options, 'yes'), terminal },
      );
      terminal.step(`deploying to ${client.address}`);
      return { ...built, deployed: await deployApplication(client, { ...built, environment: into, source, keep }, terminal) };
    });
    const { environment, endpoints: rows } = deployed;
    const created = rows.filter((row) => row.created).length;
    terminal.done(`environment ${environment}: ${created} created, ${rows.length - created} updated`);
    // What was deployed is said also where the waiting fails.
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(rows, null, 2));
    const client = await service.client();
    const failed = isWaiting ? await waitForReleases(client, rows, { timeoutMs, isStrict: flagOption(options, 'strict'), terminal }) : [];
    printEndpoints(rows, terminal);
    for (const { spec } of application.endpoints) if (spec.isPublic) terminal.warn(publicWarning(spec.name));
    if (failed.length > 0) {
      await explainFailures(client, failed, terminal);
      return 1;
    }
    for (const next of nextCommands(application, rows, apiKeyForShell(settings, keySource(env, folder)))) terminal.next(next);
    return 0;
  },
};

interface Service {
  client(): Promise<GatewayClient>;
  /** Refuses a missing or wrong key and an unreachable service before the work of a build: it may take minutes. */
  reach(environment: string): Promise<void>;
}

function serviceOf(settings: Settings, { env, terminal }: Omit<Invocation, 'args'>): Service {
  let connected: Promise<GatewayClient> | undefined;
  const client = (): Promise<GatewayClient> => (connected ??= connect(settings, env));
  return {
    client,
    async reach(environment) {
      const reached = await client();
      const [{ retrying }, { listEndpoints }] = await Promise.all([import('../deploy/deploy.ts'), import('../api/control.ts')]);
      await retrying(
        () => listEndpoints(reached, environment),
        terminal,
        () => 0,
      );
    },
  };
}

async function printChanges(folder: string, settings: Settings, { options, env, terminal }: Omit<Invocation, 'args'>): Promise<void> {
  for (const [name, flag] of [
    ['preview', '--preview'],
    ['image', '--image'],
  ] as const)
    if (options[name] !== undefined) throw new CapstanError('INVALID_ARGUMENT', `${flag}: not allowed with --dry-run`, { field: flag });
  const [{ build }, { withFolder }, { dryRun, keptArtifact, printDryRun }, { ARTIFACT }] = await Promise.all([
    import('../../compiler/build/build.ts'),
    import('../../compiler/build/folder-lock.ts'),
    import('../deploy/dry-run.ts'),
    import('../../compiler/artifact/artifact.ts'),
  ]);
  const environment = textOption(options, 'env') ?? 'default';
  const service = serviceOf(settings, { options, env, terminal });
  terminal.step(`building ${folder}`);
  const found = await withFolder(folder, terminal, async () => {
    const kept = await keptArtifact(join(folder, ARTIFACT));
    const built = await build(folder, { ...buildOptions(options, env, folder), admit: () => service.reach(environment) }, terminal);
    const client = await service.client();
    terminal.step(`comparing with ${client.address}`);
    return dryRun(client, { ...built, environment }, { kept, isKeeping: flagOption(options, 'keepSettings'), terminal });
  });
  if (flagOption(options, 'json')) terminal.data(JSON.stringify(found, null, 2));
  else printDryRun(found, terminal);
  terminal.done('nothing was deployed');
}

async function preview(folder: string, settings: Settings, { options, env, terminal }: Omit<Invocation, 'args'>): Promise<number> {
  for (const [name, flag] of [
    ['url', '--url'],
    ['dataDir', '--data-dir'],
    ['keepSettings', '--keep-settings'],
  ] as const)
    if (options[name] !== undefined)
      throw new CapstanError('INVALID_ARGUMENT', `${flag}: not allowed with --preview, which starts its own stack on its own data folder`, {
        field: flag,
      });
  const [{ build }, { withFolder }, { runPreview }] = await Promise.all([
    import('../../compiler/build/build.ts'),
    import('../../compiler/build/folder-lock.ts'),
    import('../preview/preview.ts'),
  ]);
  return runPreview({
    settings,
    // The variable sets the port of the user's own service, which may run at the same time.
    httpPort: options['httpPort'] === undefined ? 0 : (settings.httpPort ?? 0),
    environment: env,
    into: textOption(options, 'env') ?? 'default',
    image: textOption(options, 'image'),
    asJson: flagOption(options, 'json'),
    terminal,
    async build() {
      terminal.step(`building ${folder}`);
      const built = await withFolder(folder, terminal, () => build(folder, buildOptions(options, env, folder), terminal));
      terminal.done(`${built.artifact.files} files, ${sizeText(built.artifact.size)}, sha256 ${built.artifact.digest.slice(0, 12)}`);
      return built;
    },
  });
}
