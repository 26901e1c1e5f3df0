import { CapstanError } from '../../lib/errors.ts';
import type { MasterKeyInfo } from '../../proto/gen/capstan/v1/control.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withScheduler } from '../local.ts';

const ACTIONS = ['show', 'rotate'] as const;

/** `capstan master-key [action]`: the key that encrypts secrets at rest, and a new one in its place. */
export const masterKey: Command = {
  name: 'master-key',
  summary: 'Show which master key encrypts secrets at rest, or replace it while everything serves.',
  arguments: [{ name: 'action', description: `${ACTIONS.join(', ')}; show when left out`, optional: true }],
  options: [{ flags: '--json', description: 'print JSON' }, ...settingOptions('grpcPort', 'dataDir', 'scheduler')],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const action = ACTIONS.find((name) => name === (args[0] ?? 'show'));
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    takesOnly(action, args, 1);
    await withScheduler(readSettings(options, env), async (client) => {
      if (action === 'show') {
        const info = await client.masterKey();
        print(invocation, info);
        if (info.rotating) terminal.line('a rotation is under way: some values are still encrypted with the key before it');
        return;
      }
      terminal.step('replacing the master key');
      const info = await client.rotateMasterKey();
      print(invocation, info, { renewed: info.renewed });
      terminal.done(`${info.renewed} values are encrypted with the key ${info.id}; nothing needs the one before it any more`);
      terminal.warn('backups of before hold the old key: make a new one, and remove those if that key is in wrong hands');
      terminal.next('capstan backup <folder>');
    });
  },
};

function print({ options, terminal }: Invocation, info: MasterKeyInfo, more: object = {}): void {
  const since = info.sinceMs === undefined ? null : new Date(Number(info.sinceMs)).toISOString();
  const json = flagOption(options, 'json');
  if (json) terminal.data(JSON.stringify({ id: info.id, since, rotating: info.rotating, ...more }, null, 2));
  else terminal.value(`${info.id}${since === null ? '' : `  since ${since}`}`);
}
