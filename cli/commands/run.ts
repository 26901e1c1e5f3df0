import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import { cacheFolder } from '../command/build-options.ts';
import { projectFolder } from '../../compiler/build/notebook.ts';
import type { Command } from '../command/command.ts';
import { textOption, type OptionValues } from '../../terminal/options.ts';
import { readDotEnv } from '../../terminal/config.ts';
import { readEnvFile } from '../../compiler/application/env-file.ts';
import { endWish } from '../../terminal/end-signals.ts';

const DEFAULT_PORT = '8888';
const DEFAULT_HOST = 'localhost';

/** `capstan run [folder]`: the development server, until Ctrl+C. */
export const run: Command = {
  name: 'run',
  summary: 'Serve the endpoints of a folder locally during development; reloads changes.',
  arguments: [
    { name: 'folder', description: 'folder that declares endpoints, or a notebook; default: the working folder', optional: true },
  ],
  options: [
    { flags: '--port <port>', description: 'port; 0 picks a free one', default: DEFAULT_PORT },
    {
      flags: '--host <address>',
      description: 'address to listen on; a non-loopback address lets other machines call it',
      default: DEFAULT_HOST,
    },
    { flags: '--env-file <file>', description: 'variables of this file for every endpoint, before those of .env' },
    {
      flags: '--inspect [port]',
      description: 'let debuggers attach to workers: Node’s inspector, debugpy in Python; without a port, a free one for each worker',
    },
  ],
  examples: ['run', 'run hello --port 9000'],
  async run({ args, options, env, terminal }) {
    const port = textOption(options, 'port') ?? DEFAULT_PORT;
    if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
      throw new CapstanError('INVALID_ARGUMENT', '--port: must be a port number between 0 and 65535', { field: '--port' });
    const host = textOption(options, 'host') ?? DEFAULT_HOST;
    const inspect = inspectPort(options);
    const folder = await projectFolder(args[0], env.cwd, terminal);
    const envPath = textOption(options, 'envFile');
    const envFile = envPath === undefined ? undefined : readEnvFile(envPath, env.cwd);
    const [{ startDevelopment }, { writeDevRunFile }, { mustBeFolder }, { TOOL_FOLDER }] = await Promise.all([
      import('../../devserver/development.ts'),
      import('../../devserver/dev-run-file.ts'),
      import('../../compiler/application/application.ts'),
      import('../../compiler/artifact/artifact.ts'),
    ]);
    await mustBeFolder(folder);
    const end = endWish();
    const development = startDevelopment({
      folder,
      cacheDir: cacheFolder(env),
      inspect,
      input: process.stdin,
      toolFolder: join(folder, TOOL_FOLDER),
      variables: () => ({ ...readDotEnv(folder), ...envFile?.values, ...env.variables }),
      terminal: { ...terminal, line: (text) => terminal.line(visibleLine(text)) },
    });
    try {
      const server = await listening(async () => (await development).serve({ host, port: Number(port) }), port, host);
      await writeDevRunFile(folder, server.url);
      terminal.done(`development server: ${server.url} (docs at ${server.url}/docs)`);
      terminal.line('Functions run as your user, without a sandbox.');
      terminal.line('Press Ctrl+C to stop it.');
      await end.wished;
      await server.close();
    } finally {
      await (await development).close();
      // Also the channel of a process that handed over to this one.
      end.release();
    }
  },
};

/** Returns the port of debuggers, 0 for free ones; undefined when none was asked for. */
function inspectPort(options: OptionValues): number | undefined {
  const given = options['inspect'];
  if (given === undefined || given === false) return undefined;
  if (given === true) return 0;
  if (!/^\d{1,5}$/.test(given) || Number(given) > 65_535)
    throw new CapstanError('INVALID_ARGUMENT', '--inspect: must be a port number between 0 and 65535', { field: '--inspect' });
  return Number(given);
}

async function listening<T>(listen: () => Promise<T>, port: string, host: string): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    if (isErrno(cause, 'EADDRINUSE')) throw new CapstanError('ADDRESS_IN_USE', `port ${port} is in use by another program`, { cause });
    if (isErrno(cause, 'EADDRNOTAVAIL', 'ENOTFOUND', 'EINVAL'))
      throw new CapstanError('INVALID_ARGUMENT', `--host: ${host} must be an address of this host`, { field: '--host', cause });
    throw cause;
  }
}
