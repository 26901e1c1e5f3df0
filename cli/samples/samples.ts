/**
 * Deploys the samples of `npm start`: each endpoint is deployed when it is new, and updated when its files changed. A
 * sample that cannot be deployed is reported and skipped; the service continues.
 */
import { relative } from 'node:path';

import { assertNever } from '../../lib/errors.ts';
import { listEndpoints } from '../api/control.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { connectGateway, type GatewayClient } from '../../client/gateway-client.ts';
import { listMachineTypes } from '../api/nodes.ts';
import { buildOptions } from '../command/build-options.ts';
import { build, type Built } from '../../compiler/build/build.ts';
import type { Settings } from '../../terminal/config.ts';
import { deployApplication } from '../deploy/deploy.ts';
import { apiKey, ownSettings, quote } from '../../client/local.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { explain } from '../../terminal/tool-error.ts';
import { planSample, type SamplePlan } from './plan.ts';
import { readSampleRecord, writeSampleRecord } from './record.ts';

const ENVIRONMENT = 'default';

export interface SampleOptions {
  /** Folders of the samples. */
  readonly folders: readonly string[];
  readonly settings: Settings;
  /** Base URL of the gateway. */
  readonly url: string;
  readonly cwd: string;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Deploys the samples and returns the endpoints that serve them. Throws only when `signal` is aborted. */
export async function deploySamples(options: SampleOptions): Promise<EndpointRow[]> {
  const rows: EndpointRow[] = [];
  for (const folder of options.folders) {
    const own = await attempt(options, `the sample ${folder}`, () => deployFolder(options, folder));
    rows.push(...(own ?? []));
  }
  return rows;
}

/** Runs one step; reports what it throws, and then returns undefined. */
export async function attempt<T>(
  { terminal, signal }: Pick<SampleOptions, 'terminal' | 'signal'>,
  what: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  signal.throwIfAborted();
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    const { message, hint } = explain(error);
    terminal.warn(`${what} is skipped: ${message}`);
    terminal.hint(hint);
    return undefined;
  }
}

async function deployFolder(options: SampleOptions, folder: string): Promise<EndpointRow[]> {
  const { url, terminal } = options;
  const settings = ownSettings(options.settings);
  const built = await build(folder, buildOptions({}, { variables: {}, cwd: folder }), terminal);
  const client = connectGateway(url, apiKey(settings));
  const known = await listEndpoints(client, ENVIRONMENT);
  const needsGpu = built.application.endpoints.some(({ spec }) => spec.gpuIds !== '');
  const hasGpu = needsGpu && (await listMachineTypes(client)).some(({ devices }) => devices.length > 0);
  const rows: EndpointRow[] = [];
  for (const { spec } of built.application.endpoints) {
    const { name } = spec;
    const record = readSampleRecord(settings.dataDir);
    const present = known.find((row) => row.name === name);
    const { kind } = planSample({
      digest: built.artifact.digest,
      deployed: present?.buildDigest,
      recorded: record[name],
      needsGpu: spec.gpuIds !== '',
      hasGpu,
    });
    let row = kind === 'present' ? present : undefined;
    if (kind === 'deploy') row = await attempt(options, `the sample endpoint ${name}`, () => deployOne(built, client, name, terminal));
    else explainPlan(kind, name, { ...options, folder });
    if (row === undefined) continue;
    rows.push(row);
    if (record[name] !== row.buildDigest) writeSampleRecord(settings.dataDir, { ...record, [name]: row.buildDigest });
  }
  return rows;
}

/** Endpoints are deployed one by one, so that a refusal of one does not affect the others. */
async function deployOne(
  { application, artifact }: Built,
  client: GatewayClient,
  name: string,
  terminal: Terminal,
): Promise<EndpointRow | undefined> {
  terminal.step(`deploying ${name} from ${application.folder}`);
  const one = { ...application, endpoints: application.endpoints.filter(({ spec }) => spec.name === name) };
  const { endpoints } = await deployApplication(client, { application: one, artifact, environment: ENVIRONMENT }, terminal);
  return endpoints.find((each) => each.name === name);
}

function explainPlan(
  kind: SamplePlan['kind'],
  name: string,
  { folder, cwd, terminal }: { readonly folder: string; readonly cwd: string; readonly terminal: Terminal },
): void {
  const command = `capstan deploy ${quote(relative(cwd, folder) || '.')}`;
  switch (kind) {
    case 'present':
    case 'deploy':
      return;
    case 'no-gpu':
      terminal.warn(`no host has a GPU: the sample endpoint ${name} is skipped; the next start with a GPU deploys it`);
      return;
    case 'undeployed':
      terminal.warn(`the sample endpoint ${name} was deleted and is not deployed again`);
      terminal.hint(`to deploy it again: ${command}`);
      return;
    case 'replaced':
      terminal.warn(`the endpoint ${name} has another build than the sample and is left unchanged`);
      terminal.hint(`to replace it with the sample: ${command}`);
      return;
    default:
      assertNever(kind);
  }
}
