import type { Command, CommandGroup } from '../command/command.ts';
import { readSettings } from '../../terminal/config.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const PLACES = 'sqlite:<database file or data folder> or postgres://user@host:port/database';
/** Progress is shown for tables that take a while. */
const SHOWN_ROWS = 1_000;

const copy: Command = {
  name: 'copy',
  summary: 'Copy the queue of a stopped service from SQLite to PostgreSQL, or back.',
  options: [
    { flags: '--from <store>', description: `the store to copy: ${PLACES}` },
    { flags: '--to <store>', description: 'the empty store to copy to, of the other kind' },
    { flags: '--start-over', description: 'discard an unfinished copy in the target first' },
  ],
  json: true,
  examples: ['store copy --from sqlite:/var/lib/capstan --to postgres://capstan@db.example/capstan'],
  async run({ options, env, terminal }) {
    const from = required(textOption(options, 'from'), '--from');
    const to = required(textOption(options, 'to'), '--to');
    const { copyStore } = await import('../../scheduler/store-copy.ts');
    terminal.step('copying the queue; to resume an interrupted copy, run the same command again');
    const report = await copyStore({
      from,
      to,
      folder: env.cwd,
      startOver: flagOption(options, 'startOver'),
      onProgress: ({ step, table, rows, total }) => {
        if (total >= SHOWN_ROWS) terminal.progress(`${step} ${table}: ${rows} of ${total} rows`);
      },
    });
    terminal.progress('');
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(report, null, 2));
    else for (const { name, rows, sha256 } of report.tables) terminal.value(`${name}  ${rows} rows  sha256 ${sha256}`);
    const rows = report.tables.reduce((sum, table) => sum + table.rows, 0);
    terminal.done(`Copied ${rows} rows to ${report.to}; both sides are equal`);
    terminal.warn(
      'The copy contains neither blobs (builds, bodies above 64 KiB) nor secrets: copy them to the new scheduler as well (cluster.md)',
    );
    terminal.warn(`Do not start a scheduler on ${report.from} again: jobs would run twice`);
    if (to.startsWith('postgres')) terminal.next(`CAPSTAN_STORE=${to} capstan scheduler`);
    else terminal.next('capstan scheduler');
  },
};

const acceptLoss: Command = {
  name: 'accept-loss',
  summary: 'Go on without acknowledged jobs and results that a damaged SQLite queue has lost.',
  settings: ['dataDir'],
  json: true,
  examples: ['store accept-loss --data-dir /var/lib/capstan'],
  async run({ options, env, terminal }) {
    const { dataDir } = readSettings(options, env);
    const { acceptStoreLoss } = await import('../../scheduler/store-check.ts');
    const loss = acceptStoreLoss(dataDir);
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(loss, null, 2));
    if (loss === null) {
      terminal.done('Nothing is missing; nothing was changed');
      return;
    }
    terminal.warn(`Accepted: ${loss.what}`);
    if (loss.kept !== null) terminal.line(`The damaged log is kept in ${loss.kept}`);
    if (loss.problems.length > 0)
      throw new ToolError(
        'DATA_LOST',
        `the database is damaged without the missing part: ${loss.problems[0] ?? ''}`,
        'Restore a backup (docs/backup.md).',
      );
    terminal.done('The scheduler can start without what is missing. Jobs that ended may run once more');
    terminal.next('capstan scheduler');
  },
};

/** `capstan store`: the database of the queue. */
export const store: CommandGroup = {
  name: 'store',
  summary: 'Move the queue between SQLite and PostgreSQL; go on after a loss.',
  commands: [copy, acceptLoss],
};

function required(value: string | undefined, option: string): string {
  if (value !== undefined && value !== '') return value;
  throw new ToolError('INVALID_ARGUMENT', `${option}: is required`, `Set it to ${PLACES}.`, { field: option });
}
