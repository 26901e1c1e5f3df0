import type { Command } from '../command.ts';
import { toolVersion } from '../version.ts';

/** `capstan version`: this package and the Node it runs on. */
export const version: Command = {
  name: 'version',
  summary: 'Print the version.',
  options: [{ flags: '--json', description: 'print JSON' }],
  async run({ options, terminal }) {
    const version = toolVersion();
    terminal.data(options['json'] === true ? JSON.stringify({ version, node: process.versions.node }) : version);
  },
};
