/** `capstan deploy --dry-run`: compares a build with what is deployed in an environment, and changes nothing there. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';

import { READABLE_NAMES } from '../../lib/endpoint-settings.ts';
import { CapstanError } from '../../lib/errors.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import { deployedSettings } from '../../lib/normal-settings.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_DEPLOYED_FACTS, LIST_EARLIER_FACTS } from '../../client/graphql/gen/operations.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { archiveContents, type ArchiveContents } from '../../lib/archive-contents.ts';
import {
  changesBetween,
  comparedSettings,
  endpointChange,
  type EndpointChange,
  type EndpointFacts,
  type NameChanges,
} from './difference.ts';
import { needsArtifact, type Deployment } from './deploy.ts';

export interface DryRun {
  readonly environment: string;
  readonly endpoints: readonly EndpointChange[];
  /** Endpoints of the environment that the folder does not declare: a deployment leaves them as they are. */
  readonly untouched: readonly string[];
  /** Digests of the deployed builds of these endpoints, and of the new one. */
  readonly build: { readonly from: readonly string[]; readonly to: string };
  readonly files: NameChanges;
  readonly packages: NameChanges;
  readonly versions: { readonly from: Readonly<Record<string, string>>; readonly to: Readonly<Record<string, string>> };
}

const SETTINGS = READABLE_NAMES.filter((name) => name !== 'rateLimits');

/** The endpoints of an environment, with the attempts that an endpoint has which sets none; no endpoints for one that does not exist. */
async function deployedEndpoints(
  client: GatewayClient,
  environment: string,
): Promise<{ readonly endpoints: readonly EndpointFacts[]; readonly defaultMaxAttempts: number }> {
  const { endpoints } = await client.query(LIST_DEPLOYED_FACTS, { environment }).catch(async (error: unknown) => {
    // A gateway of an earlier version does not know the field.
    if (!(error instanceof CapstanError) || !error.message.includes('"defaultMaxAttempts"')) throw error;
    const known = await client.query(LIST_EARLIER_FACTS, { environment });
    return { endpoints: known.endpoints.map((endpoint) => ({ ...endpoint, defaultMaxAttempts: 0 })) };
  });
  const facts = endpoints.map(({ name, kind, build, routes, functions, settings, envNames }): EndpointFacts => ({
    name,
    kind: kind === 'QUEUE' ? 'queue' : 'load-balanced',
    build: build?.digest ?? '',
    routes: Object.fromEntries(routes.map(({ method, path, function: fn }) => [`${method} ${path}`, fn])),
    functions,
    envNames,
    settings: comparedSettings(settings, SETTINGS),
  }));
  return { endpoints: facts, defaultMaxAttempts: endpoints[0]?.defaultMaxAttempts ?? 0 };
}

/** Compares. `kept` holds the artifact that an earlier build left in the folder, so that it need not be downloaded. */
export async function dryRun(
  client: GatewayClient,
  { application, artifact, environment }: Deployment,
  kept: { readonly digest: string; readonly contents: ArchiveContents } | undefined,
): Promise<DryRun> {
  const build = needsArtifact(application) ? artifact.digest : '';
  const { endpoints: deployed, defaultMaxAttempts } = await deployedEndpoints(client, environment);
  const wanted = application.endpoints.map(({ spec }): EndpointFacts => {
    const isBalanced = spec.kind === EndpointKind.LOAD_BALANCED;
    const settings = deployedSettings(isBalanced ? 'LOAD_BALANCED' : 'QUEUE', {
      ...spec,
      maxAttempts: spec.maxAttempts || defaultMaxAttempts,
    });
    return {
      name: spec.name,
      kind: isBalanced ? 'load-balanced' : 'queue',
      build,
      routes: spec.routes,
      functions: spec.functions.map(({ name }) => name),
      envNames: Object.keys(spec.env).sort(),
      settings: comparedSettings(settings, SETTINGS),
    };
  });
  const names = wanted.map(({ name }) => name);
  const former = deployed.filter(({ name }) => names.includes(name));
  const from = [...new Set(former.map((each) => each.build).filter((digest) => digest !== ''))];
  const before = await Promise.all(from.map((digest) => contentsOf(client, digest, kept)));
  const after = build === '' ? NOTHING : await archiveContents(createReadStream(artifact.path) as AsyncIterable<Buffer>);
  const merged: ArchiveContents = {
    files: Object.fromEntries(before.flatMap(({ files }) => Object.entries(files))),
    packages: Object.fromEntries(before.flatMap(({ packages }) => Object.entries(packages))),
  };
  return {
    environment,
    endpoints: wanted.map((each) =>
      endpointChange(
        deployed.find(({ name }) => name === each.name),
        each,
      ),
    ),
    untouched: deployed.map(({ name }) => name).filter((name) => !names.includes(name)),
    build: { from, to: build },
    files: changesBetween(merged.files, after.files),
    packages: changesBetween(merged.packages, after.packages),
    versions: { from: merged.packages, to: after.packages },
  };
}

const NOTHING: ArchiveContents = { files: {}, packages: {} };

async function contentsOf(
  client: GatewayClient,
  digest: string,
  kept: { readonly digest: string; readonly contents: ArchiveContents } | undefined,
): Promise<ArchiveContents> {
  return kept?.digest === digest ? kept.contents : archiveContents(client.getBuild(digest));
}

/** Reads the artifact that an earlier build left; undefined without one. To be called before a build replaces it. */
export async function keptArtifact(path: string): Promise<{ digest: string; contents: ArchiveContents } | undefined> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(path), hash);
    const contents = await archiveContents(createReadStream(path) as AsyncIterable<Buffer>);
    return { digest: hash.digest('hex'), contents };
  } catch {
    return undefined; // absent, or left unfinished: what is deployed is downloaded instead
  }
}

/** Prints the differences: `+` added, `~` changed, `-` removed. */
export function printDryRun({ environment, endpoints, files, packages, versions, untouched }: DryRun, terminal: Terminal): void {
  const lines = [`environment ${environment}`];
  for (const { name, change, settings, env, routes, functions } of endpoints) {
    lines.push(`${SIGNS[change]} endpoint ${name}${change === 'create' ? ' (new)' : change === 'none' ? ' (unchanged)' : ''}`);
    for (const [setting, { from, to }] of Object.entries(settings)) lines.push(`    ~ ${setting}: ${shown(from)} → ${shown(to)}`);
    lines.push(...listed('env', { ...env, changed: [] }), ...listed('route', routes), ...listed('function', { ...functions, changed: [] }));
  }
  lines.push(...section('files', files, () => ''), ...section('packages', packages, (name) => versionOf(name, versions)));
  if (untouched.length > 0) lines.push(`not in this folder, left as they are: ${untouched.join(', ')}`);
  terminal.data(lines.map(visibleLine).join('\n'));
}

const SIGNS = { create: '+', update: '~', none: '=' } as const;
/** Lines of one kind; a build may have thousands of files. */
const MAX_LINES = 200;

function listed(what: string, { added, changed, removed }: NameChanges): string[] {
  const line = (sign: string) => (name: string) => `    ${sign} ${what} ${name}`;
  return [...added.map(line('+')), ...changed.map(line('~')), ...removed.map(line('-'))];
}

function section(what: string, changes: NameChanges, note: (name: string) => string): string[] {
  const { added, changed, removed } = changes;
  const line = (sign: string) => (name: string) => `  ${sign} ${name}${note(name)}`;
  const lines = [...added.map(line('+')), ...changed.map(line('~')), ...removed.map(line('-'))];
  const more = lines.length > MAX_LINES ? [`  … and ${lines.length - MAX_LINES} more`] : [];
  return [`${what}: ${added.length} added, ${changed.length} changed, ${removed.length} removed`, ...lines.slice(0, MAX_LINES), ...more];
}

function versionOf(name: string, { from, to }: DryRun['versions']): string {
  const [was = '', is = ''] = [from[name], to[name]];
  if (was === is || was === '') return is === '' ? '' : ` ${is}`;
  return is === '' ? ` ${was}` : ` ${was} → ${is}`;
}

function shown(value: unknown): string {
  return value === '' || value === undefined ? '(none)' : JSON.stringify(value);
}
