import { CapstanError } from '../../lib/errors.ts';
import type { Fleet } from '../api/fleet.ts';
import type { WebhookRow } from '../api/webhook-row.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withFleet } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['list', 'redeliver', 'secret'] as const;
/** In the place of an id: everything that was given up. */
const ALL_FAILED = 'failed';

/** `capstan webhooks [action] [id]`: deliveries not made yet or given up, and the secret that signs them. */
export const webhooks: Command = {
  name: 'webhooks',
  summary: 'List webhooks not delivered, send them anew, or print or rotate the secret they are signed with.',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; list when left out`, optional: true },
    { name: 'id', description: `redeliver: id of a webhook, or '${ALL_FAILED}' for all that were given up`, optional: true },
  ],
  options: [
    { flags: '--rotate', description: 'secret: make a new one; for 24 hours webhooks are signed with the old one, too' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run(invocation) {
    const { args, options, env } = invocation;
    const [given = 'list', id] = args;
    const action = ACTIONS.find((name) => name === given);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action !== 'redeliver') takesOnly(action, args, 1);
    if (action === 'redeliver' && id === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `id: redeliver needs the id of a webhook, or '${ALL_FAILED}'`, { field: 'id' });
    const rotate = flagOption(options, 'rotate');
    if (rotate && action !== 'secret')
      throw new CapstanError('INVALID_ARGUMENT', '--rotate: belongs to the action secret', { field: 'rotate' });
    await withFleet(readSettings(options, env), env, options, async (fleet) => {
      if (action === 'list') list(invocation, await fleet.webhooks());
      else if (action === 'redeliver') await redeliver(invocation, fleet, id ?? '');
      else if (rotate) await rotateSecret(invocation, fleet);
      else printSecret(invocation, await fleet.webhookSecret());
    });
  },
};

function list({ options, terminal }: Invocation, rows: readonly WebhookRow[]): void {
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  terminal.data(
    renderTable(
      ['ID', 'STATE', 'TRIES', 'NEXT', 'URL', 'WHY'],
      rows.map((row) => [row.id, row.state, String(row.tries), row.nextTry ?? '', row.url, row.error]),
    ),
  );
  if (rows.some(({ state }) => state === 'failed')) terminal.next(`capstan webhooks redeliver ${ALL_FAILED}`);
}

async function redeliver({ options, terminal }: Invocation, fleet: Fleet, wanted: string): Promise<void> {
  const failed = async (): Promise<string[]> => (await fleet.webhooks()).filter(({ state }) => state === 'failed').map(({ id }) => id);
  const redelivered = wanted === ALL_FAILED ? await failed() : [wanted];
  for (const id of redelivered) await fleet.redeliverWebhook(id);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify({ redelivered }, null, 2));
    return;
  }
  terminal.done(`sent anew: ${redelivered.length === 1 ? '1 webhook' : `${redelivered.length} webhooks`}`);
  if (redelivered.length > 0) terminal.next('capstan webhooks');
}

function printSecret({ options, terminal }: Invocation, secret: string): void {
  terminal.value(flagOption(options, 'json') ? JSON.stringify({ secret }) : secret);
}

async function rotateSecret({ options, terminal }: Invocation, fleet: Fleet): Promise<void> {
  const { secret, previousUntil } = await fleet.rotateWebhookSecret();
  terminal.value(flagOption(options, 'json') ? JSON.stringify({ secret, previousUntil }) : secret);
  if (previousUntil !== null) terminal.done(`webhooks are signed with the old secret, too, until ${previousUntil}`);
}
