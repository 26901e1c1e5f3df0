import { CapstanError } from '../../proto/errors.ts';
import { flagOption, textOption, type Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withScheduler } from '../local.ts';

const LONGEST = 1000;

/** `capstan logs <endpoint>`: what its workers printed last. */
export const logs: Command = {
  name: 'logs',
  summary: 'Print the last lines of an endpoint’s workers.',
  arguments: [{ name: 'endpoint', description: 'id or name' }],
  options: [
    { flags: '--limit <lines>', description: `how many lines, 1 to ${LONGEST} (100)` },
    { flags: '--worker <id>', description: 'only those of this worker' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('grpcPort', 'dataDir', 'scheduler'),
  ],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const limit = readLimit(textOption(options, 'limit'));
    const { findEndpoint } = await import('../api/find-endpoint.ts');
    const lines = await withScheduler(settings, async (client) => {
      const { id } = findEndpoint(await client.listEndpoints(''), args[0] ?? '');
      return client.logs({ endpointId: id, workerId: textOption(options, 'worker') ?? '', limit, afterMs: 0n });
    });
    if (flagOption(options, 'json')) {
      const rows = lines.map((line) => ({
        time: timeOf(line.atMs),
        worker: line.workerId,
        job: line.jobId,
        stream: line.stream,
        text: line.text,
      }));
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    for (const line of lines) terminal.data(`${timeOf(line.atMs)} ${line.workerId} ${line.stream} ${line.text}`);
    if (lines.length === 0) terminal.warn('its workers have printed nothing');
  },
};

function timeOf(ms: bigint): string {
  return new Date(Number(ms)).toISOString();
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return 100;
  const limit = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > LONGEST)
    throw new CapstanError('INVALID_ARGUMENT', `--limit: must be an integer between 1 and ${LONGEST}`, { field: '--limit' });
  return limit;
}
