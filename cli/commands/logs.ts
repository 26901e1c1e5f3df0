import { CapstanError } from '../../lib/errors.ts';
import type { LogRow } from '../api/control.ts';
import type { Command } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect } from '../gateway.ts';
import { endWish } from '../terminal/end-signals.ts';

const LONGEST = 1000;

/** `capstan logs <endpoint>`: what its workers printed last. */
export const logs: Command = {
  name: 'logs',
  summary: 'Print the last lines of an endpoint’s workers.',
  arguments: [{ name: 'endpoint', description: 'id or name' }],
  options: [
    { flags: '--limit <lines>', description: `how many lines, 1 to ${LONGEST} (100)` },
    { flags: '-f, --follow', description: 'go on with new lines until Ctrl+C' },
    { flags: '--worker <id>', description: 'only those of this worker' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const limit = readLimit(textOption(options, 'limit'));
    const [{ findEndpoint }, { listEndpoints, readLogs }] = await Promise.all([
      import('../api/find-endpoint.ts'),
      import('../api/control.ts'),
    ]);
    const client = await connect(settings, env);
    const { id } = findEndpoint(await listEndpoints(client, null), args[0] ?? '');
    const asked = { endpoint: id, worker: textOption(options, 'worker') ?? null, limit };
    const lines = await readLogs(client, asked);
    if (flagOption(options, 'json')) {
      const rows = lines.map(({ at, worker, job, stream, text }) => ({ time: at, worker, job: job ?? '', stream, text }));
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    const print = (line: LogRow): void => terminal.value(textOf(line));
    for (const line of lines) print(line);
    if (lines.length === 0) terminal.warn('its workers have printed nothing');
    if (!flagOption(options, 'follow')) return;
    const { newLines } = await import('../api/new-lines.ts');
    const over = new AbortController();
    void endWish().then(() => over.abort());
    const reading = (afterMs: number): Promise<LogRow[]> => readLogs(client, { ...asked, limit: LONGEST, afterMs });
    for await (const line of newLines(lines, reading, over.signal)) print(line);
    if (process.connected) process.disconnect();
  },
};

/** The carriage return of a line's end is dropped. */
function textOf({ at, worker, stream, text }: LogRow): string {
  return `${at} ${worker} ${stream} ${text.replace(/\r$/, '')}`;
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return 100;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > LONGEST)
    throw new CapstanError('INVALID_ARGUMENT', `--limit: must be an integer between 1 and ${LONGEST}`, { field: '--limit' });
  return limit;
}
