import { CapstanError } from '../../lib/errors.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import type { ReleaseRow } from '../api/control.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { sizeText } from '../../terminal/size-text.ts';

const DIGITS = 12;
const COMMIT_DIGITS = 8;

const ENDPOINT = { name: 'endpoint', description: 'id or name' };
const ENVIRONMENT = { flags: '--env <environment>', description: 'the environment', default: 'default' };

const list: Command = {
  name: 'list',
  summary: 'List the releases of an endpoint that a rollback can return to: who deployed them, and from which commit.',
  arguments: [ENDPOINT],
  options: [ENVIRONMENT],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['releases list hello', 'releases list hello --env staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { listReleases } = await import('../api/control.ts');
    const [endpoint = ''] = args;
    const client = await connect(readSettings(options, env), env);
    const rows = await listReleases(client, textOption(options, 'env') ?? 'default', endpoint);
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        String(row.release.number),
        row.digest.slice(0, DIGITS),
        ageOf(row.deployedAt),
        row.release.keyName ?? row.release.key ?? '',
        commitText(row),
        row.release.source?.message ?? '',
        row.current.length > 0 ? 'current' : '',
      ]);
      terminal.table({
        head: ['RELEASE', 'BUILD', 'AGE', 'BY', 'COMMIT', 'MESSAGE', 'STATE'],
        rows: cells,
        optional: ['STATE'],
        cut: ['MESSAGE', 'BY'],
      });
      const [, previous] = rows;
      if (previous !== undefined) terminal.next(`capstan releases diff ${endpoint} ${previous.release.number}`);
    });
  },
};

const diff: Command = {
  name: 'diff',
  summary: 'Show which files and packages differ between two releases of an endpoint.',
  arguments: [
    ENDPOINT,
    { name: 'from', description: 'number of a release, or at least 6 digits of its build' },
    { name: 'to', description: 'the other one; default: the newest', optional: true },
  ],
  options: [ENVIRONMENT],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['releases diff hello 3', 'releases diff hello 3 5', 'releases diff hello 3fa94c1b22d0'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { buildDifference, listReleases } = await import('../api/control.ts');
    const [endpoint = '', first = '', second] = args;
    const client = await connect(readSettings(options, env), env);
    const rows = await listReleases(client, textOption(options, 'env') ?? 'default', endpoint);
    const from = releaseNamed(rows, 'from', first);
    const to = second === undefined ? newestOf(rows) : releaseNamed(rows, 'to', second);
    const found = await buildDifference(client, from.digest, to.digest);
    printResult(invocation, { from: from.digest, to: to.digest, ...found }, () => {
      const files = found.files.map(
        ({ path, sizeBefore, sizeAfter }) => `  ${signOf(sizeBefore, sizeAfter)} ${path}${sizesText(sizeBefore, sizeAfter)}`,
      );
      const packages = found.packages.map(({ name, before, after }) => `  ${signOf(before, after)} ${name} ${versionsText(before, after)}`);
      const lines = [
        `release ${from.release.number} → ${to.release.number}`,
        `files: ${countText(found.files.length, found.filesOmitted)}`,
        ...files,
        `packages: ${countText(found.packages.length, found.packagesOmitted)}`,
        ...packages,
      ];
      terminal.data(lines.map(visibleLine).join('\n'));
      terminal.next(`capstan rollback ${endpoint} --to ${from.digest.slice(0, DIGITS)}`);
    });
  },
};

/** `capstan releases`: what was deployed, by whom, and what differs. */
export const releases: CommandGroup = {
  name: 'releases',
  summary: 'List the releases of an endpoint, and compare them.',
  commands: [list, diff],
};

function commitText({ release: { source } }: ReleaseRow): string {
  return source === null ? '' : `${source.commit.slice(0, COMMIT_DIGITS)}${source.isDirty ? '+changes' : ''}`;
}

function newestOf(rows: readonly ReleaseRow[]): ReleaseRow {
  const [newest] = rows;
  if (newest === undefined) throw new CapstanError('NOT_FOUND', 'the endpoint has no release with a build');
  return newest;
}

function releaseNamed(rows: readonly ReleaseRow[], field: string, text: string): ReleaseRow {
  const byNumber = rows.find(({ release }) => String(release.number) === text);
  const byDigest = /^[0-9a-f]{6,64}$/.test(text) ? rows.filter(({ digest }) => digest.startsWith(text)) : [];
  const found = byNumber ?? (byDigest.length === 1 ? byDigest[0] : undefined);
  if (found !== undefined) return found;
  const known = rows.map(({ release }) => release.number).join(', ');
  throw new CapstanError('NOT_FOUND', `${field}: the endpoint has no kept release ${JSON.stringify(text)}, but ${known || 'none'}`, {
    field,
  });
}

function signOf(before: unknown, after: unknown): string {
  if (before === null) return '+';
  return after === null ? '-' : '~';
}

function sizesText(before: number | null, after: number | null): string {
  if (before !== null && after !== null) return ` ${sizeText(before)} → ${sizeText(after)}`;
  return ` ${sizeText(before ?? after ?? 0)}`;
}

function versionsText(before: string | null, after: string | null): string {
  return [before, after].filter((each) => each !== null).join(' → ');
}

function countText(listed: number, omitted: number): string {
  return omitted === 0 ? String(listed) : `${listed + omitted}, the first ${listed}`;
}
