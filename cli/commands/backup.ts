import { resolve } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import type { Command } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { readSettings, SCHEDULER_SETTINGS } from '../../terminal/config.ts';
import { quote, withScheduler } from '../../client/local.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** `capstan backup <folder>`: copies the scheduler's data folder while the service runs. */
export const backup: Command = {
  name: 'backup',
  summary: 'Back up the data folder of the running scheduler: queue, builds and keys.',
  arguments: [{ name: 'folder', description: 'new folder for the backup' }],
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['backup /backups/2026-11-22'],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const target = resolve(env.cwd, args[0] ?? '');
    const { dataDir } = settings;
    const { backUp } = await import('../../supervisor/backup.ts');
    terminal.step(`copying ${dataDir}`);
    const { files, bytes } = await withScheduler(settings, (client) =>
      backUp({
        dataDir,
        target,
        snapshot: () => client.snapshotQueue().catch((error: unknown) => throwWithAnotherWay(error, dataDir, target)),
      }),
    );
    const restore = `cp -a ${quote(target)} ${quote(dataDir)}`;
    if (flagOption(options, 'json')) terminal.data(JSON.stringify({ folder: target, files, bytes, restore }, null, 2));
    else terminal.value(target);
    terminal.done(`Backed up ${files} files (${(bytes / 1e6).toFixed(1)} MB) to ${target}`);
    terminal.warn('The backup holds the master key and all secrets: protect it like the data folder');
    terminal.line(`To restore it, stop the scheduler, move ${dataDir} away, and run:`);
    terminal.next(restore);
  },
};

/** Adds that the folder of a stopped scheduler can be copied with cp. */
function throwWithAnotherWay(error: unknown, dataDir: string, target: string): never {
  if (!(error instanceof CapstanError) || (error.code !== 'UNAVAILABLE' && error.code !== 'DEADLINE_EXCEEDED')) throw error;
  const hint = `If the scheduler is stopped, copy the folder: cp -a ${quote(dataDir)} ${quote(target)}`;
  throw new ToolError(error.code, error.message, hint, { cause: error });
}
