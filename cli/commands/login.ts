import { text } from 'node:stream/consumers';

import { printResult, type Command } from '../command/command.ts';
import { readSettings } from '../../terminal/config.ts';
import { loginFile, removeLogin, writeLogin } from '../../client/login-file.ts';
import { checkKeyTarget } from '../../client/key-target.ts';
import { readRunFile } from '../../supervisor/run-file.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/**
 * `capstan login --url <base URL>`: stores the address and the key of a remote gateway after the gateway accepted them.
 */
export const login: Command = {
  name: 'login',
  summary: 'Store the address and API key of a remote gateway. Reads the key from SERVICE_API_KEY or stdin.',
  settings: ['url', 'dataDir', 'apiKey'],
  json: true,
  examples: ['login --url https://capstan.example.com < key-file'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const settings = readSettings(options, env);
    const url = settings.url?.replace(/\/+$/, '');
    if (url === undefined)
      throw new ToolError('INVALID_ARGUMENT', '--url: is required', 'For example: capstan login --url https://capstan.example.com', {
        field: '--url',
      });
    if (settings.apiKey !== undefined) checkKeyTarget(settings, 'url');
    // A key among the arguments would be visible in the list of processes.
    const key = settings.apiKey ?? (process.stdin.isTTY ? '' : await text(process.stdin)).trim();
    if (key === '')
      throw new ToolError(
        'CONFIG',
        'SERVICE_API_KEY: no API key was provided',
        `Set it, or pass the key on stdin: capstan login --url ${url} < key-file`,
        { field: 'SERVICE_API_KEY' },
      );
    const [{ connectGateway }, { listEndpoints }] = await Promise.all([
      import('../../client/gateway-client.ts'),
      import('../api/control.ts'),
    ]);
    const endpoints = await listEndpoints(connectGateway(url, key), null);
    writeLogin(env, { url, key });
    const file = loginFile(env);
    printResult(invocation, { url, file }, () => {
      terminal.done(`Logged in to ${url} (${endpoints.length} endpoints); stored in ${file}`);
      if (readRunFile(settings.dataDir) !== null)
        terminal.warn(`While a stack runs on ${settings.dataDir}, commands use that stack; --url ${url} overrides this`);
      terminal.next('capstan endpoints list');
    });
  },
};

/** `capstan logout`: removes what `capstan login` stored. */
export const logout: Command = {
  name: 'logout',
  summary: 'Remove the stored address and API key.',
  run({ env, terminal }) {
    removeLogin(env);
    terminal.done('Logged out');
    return Promise.resolve();
  },
};
