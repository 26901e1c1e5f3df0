import { CapstanError } from '../../lib/errors.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';

const list: Command = {
  name: 'list',
  summary: 'List undelivered webhooks: pending ones, and those that failed in the last 24 hours.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['webhooks list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listWebhooks } = await import('../api/webhooks.ts');
    const rows = await listWebhooks(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [row.id, row.state, String(row.tries), row.nextTry ?? '', row.url, row.error]);
      terminal.table({
        head: ['ID', 'STATUS', 'ATTEMPTS', 'NEXT ATTEMPT', 'URL', 'REASON'],
        rows: cells,
        optional: ['NEXT ATTEMPT', 'ATTEMPTS'],
        cut: ['URL', 'REASON'],
      });
      if (rows.some(({ state }) => state === 'failed')) terminal.next('capstan webhooks redeliver --failed');
    });
  },
};

const redeliver: Command = {
  name: 'redeliver',
  summary: 'Redeliver an undelivered webhook; its attempts start over.',
  arguments: [{ name: 'webhook', description: 'id of the webhook', optional: true }],
  options: [{ flags: '--failed', description: 'every failed webhook' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['webhooks redeliver 0198c0de-7a4b-7000-8000-3f1c2a9d5e60', 'webhooks redeliver --failed'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [wanted] = args;
    if ((wanted === undefined) !== flagOption(options, 'failed'))
      throw new CapstanError('INVALID_ARGUMENT', 'webhook: specify the id of a webhook, or --failed for every failed webhook', {
        field: 'webhook',
      });
    const { listWebhooks, redeliverWebhook } = await import('../api/webhooks.ts');
    const client = await connect(readSettings(options, env), env);
    const failed = async (): Promise<string[]> =>
      (await listWebhooks(client)).filter(({ state }) => state === 'failed').map(({ id }) => id);
    const redelivered = wanted === undefined ? await failed() : [wanted];
    for (const id of redelivered) await redeliverWebhook(client, id);
    printResult(invocation, { redelivered }, () => {
      terminal.done(`Redelivering ${redelivered.length === 1 ? '1 webhook' : `${redelivered.length} webhooks`}`);
      if (redelivered.length > 0) terminal.next('capstan webhooks list');
    });
  },
};

const getSecret: Command = {
  name: 'get',
  summary: 'Print the secret.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['webhooks secret get'],
  async run({ options, env, terminal }) {
    const { webhookSecret } = await import('../api/webhooks.ts');
    const secret = await webhookSecret(await connect(readSettings(options, env), env));
    terminal.value(flagOption(options, 'json') ? JSON.stringify({ secret }) : secret);
  },
};

const rotateSecret: Command = {
  name: 'rotate',
  summary: 'Replace the secret and print the new one. For 24 hours webhooks are also signed with the old one.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['webhooks secret rotate'],
  async run({ options, env, terminal }) {
    const { rotateWebhookSecret } = await import('../api/webhooks.ts');
    const { secret, previousUntil } = await rotateWebhookSecret(await connect(readSettings(options, env), env));
    terminal.value(flagOption(options, 'json') ? JSON.stringify({ secret, previousUntil }) : secret);
    if (previousUntil !== null) terminal.done(`Rotated the secret; webhooks are also signed with the old one until ${previousUntil}`);
  },
};

const secret: CommandGroup = {
  name: 'secret',
  summary: 'Print or rotate the secret that signs webhooks.',
  commands: [getSecret, rotateSecret],
};

/** `capstan webhooks`: undelivered webhooks, and the secret that signs them. */
export const webhooks: CommandGroup = {
  name: 'webhooks',
  summary: 'List and redeliver webhooks, and manage the signing secret.',
  commands: [list, redeliver, secret],
};
