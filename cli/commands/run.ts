import { join, resolve } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import type { Command } from '../command.ts';
import { textOption } from '../options.ts';
import { readDotEnv } from '../config.ts';
import { endWish } from '../terminal/end-signals.ts';
import { explain } from '../terminal/tool-error.ts';

const DEFAULT_PORT = '8888';

/** `capstan run [folder]`: the development server, until Ctrl+C. */
export const run: Command = {
  name: 'run',
  summary: 'Serve the endpoints of a folder locally during development; reloads changes.',
  arguments: [{ name: 'folder', description: 'folder that declares endpoints; without it, the working folder', optional: true }],
  options: [{ flags: '--port <port>', description: 'port on localhost; 0 picks a free one', default: DEFAULT_PORT }],
  examples: ['run', 'run hello --port 9000'],
  async run({ args, options, env, terminal }) {
    const port = textOption(options, 'port') ?? DEFAULT_PORT;
    if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
      throw new CapstanError('INVALID_ARGUMENT', '--port: must be a port number between 0 and 65535', { field: '--port' });
    const folder = resolve(env.cwd, args[0] ?? '.');
    const [{ Project }, { serveProject }, { mustBeFolder }, { TOOL_FOLDER }, { LocalWorkers }, { printer }, { workerVariables }] =
      await Promise.all([
        import('../dev/project.ts'),
        import('../dev/server.ts'),
        import('../deploy/application.ts'),
        import('../deploy/artifact.ts'),
        import('../../agent/local-workers.ts'),
        import('../dev/printer.ts'),
        import('../dev/worker-variables.ts'),
      ]);
    await mustBeFolder(folder);
    const end = endWish();
    const variables = { ...readDotEnv(folder), ...env.variables };
    const { printed, print } = printer((text) => terminal.line(visibleLine(text)));
    const workers = await LocalWorkers.open(folder, join(folder, TOOL_FOLDER), workerVariables(variables), (endpoint, { text }) =>
      print(endpoint, text),
    );
    const project = new Project(folder, variables, workers, {
      changed(routes, error) {
        if (error === null) terminal.done(`serves ${routes.map(({ method, path }) => `${method} ${path}`).join(', ')}`);
        else {
          const { message, hint } = explain(error);
          terminal.fail(message);
          terminal.hint(hint);
        }
      },
    });
    const onProgress = (endpoint: string, text: string): void => terminal.line(visibleLine(`${endpoint} | progress: ${text}`));
    try {
      await project.start();
      const server = await listening(() => serveProject({ project, printed, onProgress }, Number(port)), port);
      terminal.done(`development server: ${server.url} (docs at ${server.url}/docs)`);
      terminal.line('Ctrl+C ends it.');
      await end.wished;
      await server.close();
    } finally {
      await project.close();
      // Also the channel of a process that handed over to this one.
      end.release();
    }
  },
};

async function listening<T>(listen: () => Promise<T>, port: string): Promise<T> {
  try {
    return await listen();
  } catch (cause) {
    if (isErrno(cause, 'EADDRINUSE')) throw new CapstanError('ADDRESS_IN_USE', `port ${port} is in use by another program`, { cause });
    throw cause;
  }
}
