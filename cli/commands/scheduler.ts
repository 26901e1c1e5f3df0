import type { Command } from '../command/command.ts';
import { readSettings } from '../../terminal/config.ts';
import { runPart } from '../../supervisor/part-process.ts';
import { startScheduler } from '../../supervisor/start-part.ts';

/** `capstan scheduler`: runs this part as its own process, as `capstan up` does. */
export const scheduler: Command = {
  name: 'scheduler',
  summary: 'Run the scheduler: the queue, its store and the control plane.',
  settings: ['grpcPort', 'dataDir', 'apiKey', 'tlsCa', 'tlsCert', 'tlsKey', 'grpcPlain'],
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startScheduler(settings, env));
  },
};
