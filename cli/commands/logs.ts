import { CapstanError } from '../../lib/errors.ts';
import { parseExact, stringifyExact } from '../../lib/exact-json.ts';
import { LOG_LEVELS, LOG_STREAMS } from '../../lib/log-filter.ts';
import type { LogPage, LogRow, LogSearch } from '../api/logs.ts';
import type { Command } from '../command/command.ts';
import { readTime } from '../command/time-option.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { endWish } from '../../terminal/end-signals.ts';

const MAX_LINES = 1000;
const DEFAULT_LINES = 100;

type Options = Parameters<typeof textOption>[0];

/** `capstan logs <endpoint>`: searches what its workers printed. */
export const logs: Command = {
  name: 'logs',
  summary: 'Print or search the logs of the workers of an endpoint.',
  arguments: [{ name: 'endpoint', description: 'id or name' }],
  options: [
    { flags: '-f, --follow', description: 'also print new lines, until Ctrl+C' },
    { flags: '--limit <lines>', description: `number of lines, 1 to ${MAX_LINES}`, default: String(DEFAULT_LINES) },
    { flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' },
    { flags: '--worker <worker>', description: 'only lines of this worker, by id', default: 'all' },
    { flags: '--job <job>', description: 'only lines of this job, by id', default: 'all' },
    { flags: '--release <release>', description: 'only lines of this release, by id', default: 'all' },
    { flags: '--stream <stream>', description: `only lines of ${LOG_STREAMS.join(', ')}`, default: 'all' },
    {
      flags: '--level <level>',
      description: `minimum level: ${LOG_LEVELS.join(', ')}; lines without a level count as info`,
      default: 'all',
    },
    { flags: '--grep <pattern>', description: 'only lines that match this RE2 expression', default: 'all' },
    { flags: '--contains <text>', description: 'only lines that contain this text', default: 'all' },
    { flags: '--since <time>', description: 'start time: a duration before now (30m), or RFC 3339', default: 'the oldest line' },
    { flags: '--until <time>', description: 'end time: a duration before now (30m), or RFC 3339', default: 'now' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['logs hello', 'logs hello -f', 'logs hello --job 0198… --json', "logs hello --since 2h --level error --grep 'out of memory'"],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const limit = readLimit(textOption(options, 'limit'));
    const filter = readFilter(options);
    if (flagOption(options, 'follow') && filter.untilMs !== undefined)
      throw new CapstanError('INVALID_ARGUMENT', '--until: not allowed with --follow', { field: '--until' });
    const [{ findEndpoint }, { listEndpoints }, { searchLogs }] = await Promise.all([
      import('../api/find-endpoint.ts'),
      import('../api/control.ts'),
      import('../api/logs.ts'),
    ]);
    const client = await connect(settings, env);
    const { id } = findEndpoint(await listEndpoints(client, textOption(options, 'env') ?? null), args[0] ?? '');
    const startedMs = Date.now();
    const { lines, missing, unfiltered } = await lastLines(
      (cursor, most) => searchLogs(client, id, filter, { limit: most, cursor }),
      limit,
    );
    const asJson = flagOption(options, 'json');
    const follows = flagOption(options, 'follow');
    if (missing.length > 0)
      terminal.warn(`Lines are missing: no reply from ${missing.length === 1 ? 'node' : 'nodes'} ${missing.join(', ')}`);
    if (unfiltered.length > 0)
      terminal.warn(`Lines are missing: agents of an earlier version cannot filter; upgrade those of ${unfiltered.join(', ')}`);
    if (asJson && !follows) {
      terminal.data(stringifyExact(lines.map(rowOf), 2));
      return;
    }
    const print = (line: LogRow): void => (asJson ? terminal.data(stringifyExact(rowOf(line))) : terminal.value(textOf(line)));
    for (const line of lines) print(line);
    if (lines.length === 0 && !asJson)
      terminal.warn(Object.values(filter).every((value) => value === undefined) ? 'No logs yet' : 'No matching lines');
    if (!follows) return;
    const { newLines, WAIT_MS } = await import('../api/new-lines.ts');
    const ended = new AbortController();
    void endWish().wished.then(() => ended.abort());
    const last = lines.at(-1);
    const from = last === undefined ? startedMs : Date.parse(last.at);
    const first = await searchLogs(client, id, { ...filter, sinceMs: from, oldestFirst: true }, { limit: MAX_LINES, cursor: null });
    const known = new Set(lines.map(keyOf));
    for (const line of first.lines) if (!known.has(keyOf(line))) print(line);
    const read = (cursor: string | null): Promise<LogPage> => {
      const since = cursor === null ? { sinceMs: startedMs } : {};
      return searchLogs(
        client,
        id,
        { ...filter, ...since, oldestFirst: true },
        { limit: MAX_LINES, cursor, waitMs: WAIT_MS, signal: ended.signal },
      );
    };
    for await (const line of newLines(first.cursor, read, ended.signal)) print(line);
    if (process.connected) process.disconnect();
  },
};

/** A search that takes long comes in parts. */
async function lastLines(
  read: (cursor: string | null, most: number) => Promise<LogPage>,
  limit: number,
): Promise<{ readonly lines: LogRow[]; readonly missing: readonly string[]; readonly unfiltered: readonly string[] }> {
  let lines: LogRow[] = [];
  const missing = new Set<string>();
  const unfiltered = new Set<string>();
  let cursor: string | null = null;
  do {
    const page: LogPage = await read(cursor, limit - lines.length);
    lines = [...page.lines, ...lines];
    for (const node of page.missingNodes) missing.add(node);
    for (const node of page.unfilteredNodes) unfiltered.add(node);
    cursor = page.incomplete ? page.cursor : null;
  } while (cursor !== null && lines.length < limit);
  return { lines, missing: [...missing], unfiltered: [...unfiltered] };
}

/** Lines of one millisecond may differ in their text only. */
function keyOf({ at, worker, stream, text }: LogRow): string {
  return `${at} ${worker} ${stream} ${text}`;
}

function rowOf({ at, worker, release, job, attempt, stream, level, text, fields }: LogRow): object {
  return {
    time: at,
    worker,
    release: release ?? '',
    job: job ?? '',
    attempt: attempt ?? 0,
    stream,
    level: level ?? '',
    text,
    fields: fieldsOf(fields),
  };
}

/** Fields come from a worker: text that is no JSON is shown as it is. */
function fieldsOf(fields: string | null): unknown {
  if (fields === null) return null;
  try {
    return parseExact(fields);
  } catch (error) {
    if (error instanceof SyntaxError) return fields;
    throw error;
  }
}

/** The carriage return of a line's end is dropped. */
function textOf({ at, worker, stream, text, fields }: LogRow): string {
  return `${at} ${worker} ${stream} ${text.replace(/\r$/, '')}${fields === null ? '' : ` ${fields}`}`;
}

function readFilter(options: Options): LogSearch {
  const [sinceMs, untilMs] = [readTime(options, 'since'), readTime(options, 'until')];
  return {
    worker: textOption(options, 'worker'),
    job: textOption(options, 'job'),
    release: textOption(options, 'release'),
    stream: readOneOf(options, 'stream', LOG_STREAMS),
    level: readOneOf(options, 'level', LOG_LEVELS),
    pattern: textOption(options, 'grep'),
    contains: textOption(options, 'contains'),
    sinceMs,
    untilMs,
  };
}

function readOneOf(options: Options, name: string, values: readonly string[]): string | undefined {
  const text = textOption(options, name);
  if (text === undefined || values.includes(text)) return text;
  throw new CapstanError('INVALID_ARGUMENT', `--${name}: must be one of ${values.join(', ')}`, { field: `--${name}` });
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LINES;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LINES)
    throw new CapstanError('INVALID_ARGUMENT', `--limit: must be an integer between 1 and ${MAX_LINES}`, { field: '--limit' });
  return limit;
}
