import type { Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { runPart } from '../parts/part-process.ts';
import { startScheduler } from '../parts/start-part.ts';

/** `capstan scheduler`: one part as a process of its own; `capstan up` starts it so too. */
export const scheduler: Command = {
  name: 'scheduler',
  summary: 'Run the scheduler alone: the queue and its store.',
  options: settingOptions('grpcPort', 'dataDir'),
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startScheduler(settings, env));
  },
};
