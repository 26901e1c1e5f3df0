import type { Command } from '../command/command.ts';
import { readSettings } from '../../terminal/config.ts';
import { runPart } from '../../supervisor/part-process.ts';
import { startGateway } from '../../supervisor/start-part.ts';

/** `capstan gateway`: runs this part as its own process, as `capstan up` does. */
export const gateway: Command = {
  name: 'gateway',
  summary: 'Run a gateway: the HTTP API in front of a scheduler.',
  settings: ['httpPort', 'scheduler', 'tlsCa', 'tlsCert', 'tlsKey', 'grpcPlain'],
  run: ({ options, env }) => {
    const settings = readSettings(options, env);
    return runPart(env, () => startGateway(settings, env));
  },
};
