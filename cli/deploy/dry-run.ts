/** `capstan deploy --dry-run`: compares a build with what is deployed in an environment, and changes nothing there. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';

import { visibleLine } from '../../lib/visible-text.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { archiveContents, type ArchiveContents } from '../../lib/archive-contents.ts';
import { namesOf, shownValue, withKept, type ChangedElsewhere } from './changed-elsewhere.ts';
import { changesBetween, endpointChange, type EndpointChange, type NameChanges } from './difference.ts';
import { needsArtifact, type Deployment } from './deploy.ts';
import { declaredEndpoints, existingEndpoints } from './endpoint-facts.ts';
import { findChangedElsewhere, orUnknown, updatesOf } from './present-settings.ts';

export interface DryRun {
  readonly environment: string;
  readonly endpoints: readonly EndpointChange[];
  /** Settings that were changed after the last deployment, and that this one would change again, or with `--keep-settings` keeps. */
  readonly changedElsewhere: readonly ChangedElsewhere[];
  /** Endpoints of the environment that the folder does not declare: a deployment leaves them as they are. */
  readonly untouched: readonly string[];
  /** Digests of the deployed builds of these endpoints, and of the new one. */
  readonly build: { readonly from: readonly string[]; readonly to: string };
  readonly files: NameChanges;
  readonly packages: NameChanges;
  readonly versions: { readonly from: Readonly<Record<string, string>>; readonly to: Readonly<Record<string, string>> };
}

export interface DryRunOptions {
  /** The artifact that an earlier build left in the folder, so that it need not be downloaded. */
  readonly kept: { readonly digest: string; readonly contents: ArchiveContents } | undefined;
  /** `--keep-settings` */
  readonly isKeeping: boolean;
  readonly terminal: Terminal;
}

/** Compares. */
export async function dryRun(
  client: GatewayClient,
  { application, artifact, environment }: Deployment,
  { kept, isKeeping, terminal }: DryRunOptions,
): Promise<DryRun> {
  const build = needsArtifact(application) ? artifact.digest : '';
  const { endpoints: deployed, defaultMaxAttempts } = await existingEndpoints(client, environment);
  const declared = declaredEndpoints({ application, artifact }, defaultMaxAttempts);
  const changed = await orUnknown(() => findChangedElsewhere(client, environment, updatesOf(deployed, declared)), { isKeeping, terminal });
  const wanted = isKeeping
    ? declared.map((each) =>
        withKept(
          each,
          changed.find(({ endpoint }) => endpoint === each.name),
        ),
      )
    : declared;
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
    changedElsewhere: changed,
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
export function printDryRun(
  { environment, endpoints, changedElsewhere, files, packages, versions, untouched }: DryRun,
  terminal: Terminal,
): void {
  const lines = [`environment ${environment}`];
  for (const { name, change, settings, env, routes, functions } of endpoints) {
    lines.push(`${SIGNS[change]} endpoint ${name}${change === 'create' ? ' (new)' : change === 'none' ? ' (unchanged)' : ''}`);
    for (const [setting, { from, to }] of Object.entries(settings)) lines.push(`    ~ ${setting}: ${shownValue(from)} → ${shownValue(to)}`);
    const elsewhere = changedElsewhere.find(({ endpoint }) => endpoint === name);
    if (elsewhere !== undefined) lines.push(`    changed after the last deployment: ${namesOf(elsewhere)}`);
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
