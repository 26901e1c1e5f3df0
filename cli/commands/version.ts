import { printResult, type Command } from '../command.ts';
import { toolVersion } from '../version.ts';

/** `capstan version`: the version of this package, and of the Node that runs it. */
export const version: Command = {
  name: 'version',
  summary: 'Print the version.',
  json: true,
  run(invocation) {
    const version = toolVersion();
    printResult(invocation, { version, node: process.versions.node }, () => invocation.terminal.data(version));
    return Promise.resolve();
  },
};
