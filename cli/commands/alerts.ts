import { text } from 'node:stream/consumers';

import { CapstanError } from '../../lib/errors.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const channelArgument = { name: 'channel', description: 'id of the channel' };

const list: Command = {
  name: 'list',
  summary: 'List where the account is told of what needs attention.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['alerts list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listAlertChannels } = await import('../api/alerts.ts');
    const rows = await listAlertChannels(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.id,
        row.kind === 'EMAIL' ? 'e-mail' : 'webhook',
        row.address,
        row.wholeService ? 'the whole service' : 'the account',
        String(row.open),
        ageOf(row.createdAt),
        row.failure ?? '',
      ]);
      terminal.table({
        head: ['ID', 'KIND', 'ADDRESS', 'ABOUT', 'OPEN', 'AGE', 'FAILURE'],
        rows: cells,
        optional: ['ABOUT', 'KIND', 'AGE'],
        cut: ['ADDRESS', 'FAILURE'],
      });
      if (rows.length === 0) terminal.next('capstan alerts add <address>');
    });
  },
};

const add: Command = {
  name: 'add',
  summary: 'Send alerts to a webhook that takes Slack-compatible messages, or to an e-mail address.',
  arguments: [
    { name: 'address', description: 'URL or e-mail address; read from stdin if omitted, which hides the secrets of a URL', optional: true },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['alerts add oncall@example.com', 'alerts add < slack-url'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const address = args[0] ?? (await addressFromStdin());
    const { addAlertChannel } = await import('../api/alerts.ts');
    const kind = /^https?:/i.test(address) ? 'WEBHOOK' : 'EMAIL';
    const channel = await addAlertChannel(await connect(readSettings(options, env), env), { kind, address });
    printResult(invocation, channel, () => {
      terminal.done(`Alerts about ${channel.wholeService ? 'the whole service' : 'the account'} go to ${channel.address}`);
      terminal.next(`capstan alerts test ${channel.id}`);
    });
  },
};

const test: Command = {
  name: 'test',
  summary: 'Send a test message.',
  arguments: [channelArgument],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['alerts test alert-3f1c2a9d5e60'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { testAlertChannel } = await import('../api/alerts.ts');
    const [id = ''] = args;
    const error = await testAlertChannel(await connect(readSettings(options, env), env), id);
    if (error !== null) throw new CapstanError('UNAVAILABLE', `the test message was not delivered: ${error}`);
    printResult(invocation, { id, delivered: true }, () => terminal.done('Delivered the test message'));
  },
};

const remove: Command = {
  name: 'remove',
  summary: 'Send no more alerts to a channel.',
  arguments: [channelArgument],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [channel = ''] }) => `Send no more alerts to channel ${channel}?`,
  examples: ['alerts remove alert-3f1c2a9d5e60'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { removeAlertChannel } = await import('../api/alerts.ts');
    const removed = await removeAlertChannel(await connect(readSettings(options, env), env), args[0] ?? '');
    printResult(invocation, removed, () => terminal.done(`No more alerts go to ${removed.address}`));
  },
};

async function addressFromStdin(): Promise<string> {
  if (process.stdin.isTTY)
    throw new ToolError('INVALID_ARGUMENT', 'address: is required', 'Pass it as an argument, or on stdin: capstan alerts add < <file>', {
      field: 'address',
    });
  return (await text(process.stdin)).trim();
}

/** `capstan alerts`: where the account is told of what needs attention. */
export const alerts: CommandGroup = {
  name: 'alerts',
  summary: 'List, add, test and remove where alerts of problems go.',
  commands: [list, add, test, remove],
};
