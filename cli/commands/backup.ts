import { resolve } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import type { Command } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { quote, withScheduler } from '../local.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** `capstan backup <folder>`: a copy of the scheduler's data folder, made while everything serves. */
export const backup: Command = {
  name: 'backup',
  summary: 'Copy the data folder of the running scheduler: queue, builds, keys.',
  arguments: [{ name: 'folder', description: 'the copy, a new folder' }],
  options: [{ flags: '--json', description: 'print JSON' }, ...settingOptions('grpcPort', 'dataDir', 'scheduler')],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const target = resolve(env.cwd, args[0] ?? '');
    const { dataDir } = settings;
    const { backUp } = await import('../backup/backup.ts');
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
    terminal.done(`${target} holds ${files} files, ${(bytes / 1e6).toFixed(1)} MB`);
    terminal.warn('it holds the keys that open everything: keep it as safe as the data folder');
    terminal.line(`to restore it: stop the scheduler, move ${dataDir} away, and`);
    terminal.next(restore);
  },
};

/** A folder that nobody writes to is copied as any other. */
function throwWithAnotherWay(error: unknown, dataDir: string, target: string): never {
  if (!(error instanceof CapstanError) || (error.code !== 'UNAVAILABLE' && error.code !== 'DEADLINE_EXCEEDED')) throw error;
  const hint = `If it is stopped, the folder itself can be copied: cp -a ${quote(dataDir)} ${quote(target)}`;
  throw new ToolError(error.code, error.message, hint, { cause: error });
}
