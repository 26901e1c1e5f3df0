import { CapstanError } from '../../lib/errors.ts';
import type { LogRow } from '../api/control.ts';
import type { Command } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../config.ts';
import { connect } from '../gateway.ts';
import { endWish } from '../terminal/end-signals.ts';

const MAX_LINES = 1000;
const DEFAULT_LINES = 100;

/** `capstan logs <endpoint>`: the last lines that its workers printed. */
export const logs: Command = {
  name: 'logs',
  summary: 'Print the logs of the workers of an endpoint.',
  arguments: [{ name: 'endpoint', description: 'id or name' }],
  options: [
    { flags: '-f, --follow', description: 'also print new lines, until Ctrl+C' },
    { flags: '--limit <lines>', description: `number of lines, 1 to ${MAX_LINES}`, default: String(DEFAULT_LINES) },
    { flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' },
    { flags: '--worker <worker>', description: 'only lines of this worker, by id', default: 'all' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['logs hello', 'logs hello -f', 'logs hello --limit 1000 -o json'],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const limit = readLimit(textOption(options, 'limit'));
    const [{ findEndpoint }, { listEndpoints, readLogs }] = await Promise.all([
      import('../api/find-endpoint.ts'),
      import('../api/control.ts'),
    ]);
    const client = await connect(settings, env);
    const { id } = findEndpoint(await listEndpoints(client, textOption(options, 'env') ?? null), args[0] ?? '');
    const request = { endpoint: id, worker: textOption(options, 'worker') ?? null, limit };
    const lines = await readLogs(client, request);
    if (flagOption(options, 'json')) {
      const rows = lines.map(({ at, worker, job, stream, text }) => ({ time: at, worker, job: job ?? '', stream, text }));
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    const print = (line: LogRow): void => terminal.value(textOf(line));
    for (const line of lines) print(line);
    if (lines.length === 0) terminal.warn('No logs yet');
    if (!flagOption(options, 'follow')) return;
    const { newLines } = await import('../api/new-lines.ts');
    const ended = new AbortController();
    void endWish().wished.then(() => ended.abort());
    const read = (afterMs: number): Promise<LogRow[]> => readLogs(client, { ...request, limit: MAX_LINES, afterMs });
    for await (const line of newLines(lines, read, ended.signal)) print(line);
    if (process.connected) process.disconnect();
  },
};

/** The carriage return of a line's end is dropped. */
function textOf({ at, worker, stream, text }: LogRow): string {
  return `${at} ${worker} ${stream} ${text.replace(/\r$/, '')}`;
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LINES;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LINES)
    throw new CapstanError('INVALID_ARGUMENT', `--limit: must be an integer between 1 and ${MAX_LINES}`, { field: '--limit' });
  return limit;
}
