import type { Command } from '../command/command.ts';
import { readSettings } from '../../terminal/config.ts';
import { runPart } from '../../supervisor/part-process.ts';
import { startAgent } from '../../supervisor/start-part.ts';

/** `capstan agent`: runs this part as its own process, as `capstan up` does. */
export const agent: Command = {
  name: 'agent',
  summary: 'Run an agent: the workers of this host.',
  settings: ['scheduler', 'dataDir', 'tlsCa', 'tlsCert', 'tlsKey', 'grpcPlain'],
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startAgent(settings, env));
  },
};
