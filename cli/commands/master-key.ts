import type { MasterKeyInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Command, CommandGroup, Invocation } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { readSettings, SCHEDULER_SETTINGS } from '../../terminal/config.ts';
import { withScheduler } from '../../client/local.ts';

const status: Command = {
  name: 'status',
  summary: 'Show the id and the age of the master key, and whether a rotation is in progress.',
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['master-key status'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const info = await withScheduler(readSettings(options, env), (client) => client.masterKey());
    print(invocation, info);
    if (info.nextId !== '') terminal.line(`Key ${info.nextId} is prepared for the next rotation`);
    if (info.rotating) terminal.line('A rotation is in progress: some values are still encrypted with the previous key');
  },
};

const prepare: Command = {
  name: 'prepare',
  summary: 'Create the next master key, to be copied to the hosts of all schedulers before a rotation.',
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['master-key prepare'],
  async run({ options, env, terminal }) {
    const { id, file, lacking } = await withScheduler(readSettings(options, env), (client) => client.prepareMasterKey());
    if (flagOption(options, 'json')) terminal.data(JSON.stringify({ id, file, lacking }, null, 2));
    else terminal.value(`${id}  ${file}`);
    for (const name of lacking) terminal.warn(`${name} does not have the key: copy the file to the same path in its data folder`);
    if (lacking.length === 0) terminal.next('capstan master-key rotate');
  },
};

const rotate: Command = {
  name: 'rotate',
  summary: 'Replace the master key and encrypt all secrets with the new one, while the service runs.',
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['master-key rotate'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    await withScheduler(readSettings(options, env), async (client) => {
      terminal.step('rotating the master key');
      const info = await client.rotateMasterKey();
      print(invocation, info, { renewed: info.renewed });
      terminal.done(`Encrypted ${info.renewed} values with key ${info.id}; the previous key is no longer needed`);
      terminal.warn('Existing backups hold the previous key: create a new backup, and delete the old ones if that key was leaked');
      terminal.next('capstan backup <folder>');
    });
  },
};

/** `capstan master-key`: the key that encrypts secrets at rest. */
export const masterKey: CommandGroup = {
  name: 'master-key',
  summary: 'Show or rotate the key that encrypts secrets at rest.',
  commands: [status, prepare, rotate],
};

function print({ options, terminal }: Invocation, info: MasterKeyInfo, more: object = {}): void {
  const since = info.sinceMs === undefined ? null : new Date(Number(info.sinceMs)).toISOString();
  const json = flagOption(options, 'json');
  if (json) terminal.data(JSON.stringify({ id: info.id, since, rotating: info.rotating, ...more }, null, 2));
  else terminal.value(`${info.id}${since === null ? '' : `  since ${since}`}`);
}
