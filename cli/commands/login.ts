import { text } from 'node:stream/consumers';

import type { Command } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { loginFile, removeLogin, writeLogin } from '../login-file.ts';
import { readRunFile } from '../run-file.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** `capstan login --url <base URL>`: keeps the address and the key of a remote gateway, once they are found good. */
export const login: Command = {
  name: 'login',
  summary: 'Keep the address and the key of a remote gateway, for the other commands.',
  options: [{ flags: '--json', description: 'print JSON' }, ...settingOptions('url', 'dataDir')],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const url = settings.url?.replace(/\/+$/, '');
    if (url === undefined)
      throw new ToolError('INVALID_ARGUMENT', '--url: must be given', 'For example: capstan login --url https://capstan.example.com', {
        field: '--url',
      });
    // A key among the arguments would be seen in the list of processes.
    const key = settings.apiKey ?? (process.stdin.isTTY ? '' : await text(process.stdin)).trim();
    if (key === '')
      throw new ToolError(
        'CONFIG',
        'SERVICE_API_KEY: no API key was given',
        `Set it, or hand the key over on stdin: capstan login --url ${url} < key-file`,
        { field: 'SERVICE_API_KEY' },
      );
    const [{ connectGateway }, { listEndpoints }] = await Promise.all([import('../api/gateway-client.ts'), import('../api/control.ts')]);
    const endpoints = await listEndpoints(connectGateway(url, key), null);
    writeLogin(env, { url, key });
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify({ url, file: loginFile(env) }, null, 2));
      return;
    }
    terminal.done(`logged in at ${url} (${endpoints.length} endpoints); kept in ${loginFile(env)}`);
    if (readRunFile(settings.dataDir) !== null)
      terminal.warn(`while a stack runs on ${settings.dataDir}, commands go to it; --url ${url} says otherwise`);
    terminal.next('capstan endpoints');
  },
};

/** `capstan logout`: forgets it. */
export const logout: Command = {
  name: 'logout',
  summary: 'Forget what login kept.',
  run({ env, terminal }) {
    removeLogin(env);
    terminal.done('logged out');
    return Promise.resolve();
  },
};
