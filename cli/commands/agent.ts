import type { Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { runPart } from '../parts/part-process.ts';
import { startAgent } from '../parts/start-part.ts';

/** `capstan agent`: one part as a process of its own; `capstan up` starts it so too. */
export const agent: Command = {
  name: 'agent',
  summary: 'Run an agent alone: the workers of this host, for a scheduler.',
  options: settingOptions('scheduler', 'dataDir'),
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startAgent(settings, env));
  },
};
