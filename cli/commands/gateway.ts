import type { Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { runPart } from '../parts/part-process.ts';
import { startGateway } from '../parts/start-part.ts';

/** `capstan gateway`: one part as a process of its own; `capstan up` starts it so too. */
export const gateway: Command = {
  name: 'gateway',
  summary: 'Run a gateway alone: the HTTP API, in front of a scheduler.',
  options: settingOptions('httpPort', 'scheduler'),
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startGateway(settings, env));
  },
};
