import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from '../api/gateway-client.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { readDuration } from '../duration.ts';
import { connect } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['list', 'create', 'revoke'] as const;
const SCOPES = ['all', 'endpoints', 'read-only', 'environment'] as const;

/** `capstan keys [action] [key]`: API keys. The text of one is printed when it is made, and never again. */
export const keys: Command = {
  name: 'keys',
  summary: 'List API keys, create one with a scope, or revoke one.',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; list when left out`, optional: true },
    { name: 'key', description: 'create: its name; revoke: its id or name', optional: true },
  ],
  options: [
    { flags: '--scope <scope>', description: `create: ${SCOPES.join(', ')} (all)` },
    { flags: '--endpoints <a,b>', description: 'create, with the scope endpoints: ids or names' },
    { flags: '--env <environment>', description: 'create: the environment of the scope, or of the names (default)' },
    { flags: '--expires-in <duration>', description: 'create: for example 12h or 90d (never)' },
    { flags: '--account <account>', description: 'create, for operators: whose key it is' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run(invocation) {
    const { args, options, env } = invocation;
    const [given = 'list', key] = args;
    const action = ACTIONS.find((name) => name === given);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action === 'list') takesOnly(action, args, 1);
    if (action !== 'list' && key === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `key: ${action} needs ${action === 'create' ? 'a name' : 'an id or a name'}`, {
        field: 'key',
      });
    const client = await connect(readSettings(options, env), env);
    if (action === 'list') await list(invocation, client);
    else if (action === 'create') await create(invocation, client, key ?? '');
    else await revoke(invocation, client, key ?? '');
  },
};

async function list({ options, terminal }: Invocation, client: GatewayClient): Promise<void> {
  const { listKeys } = await import('../api/control.ts');
  const rows = await listKeys(client);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  const cells = rows.map((row) => [
    row.id,
    row.name,
    `${row.prefix}…`,
    row.scope,
    row.environment ?? row.endpoints.join(', '),
    row.createdAt ?? '',
    row.expiresAt ?? '',
    row.lastUsedAt ?? '',
  ]);
  terminal.data(renderTable(['ID', 'NAME', 'TEXT', 'SCOPE', 'FOR', 'CREATED', 'EXPIRES', 'LAST USED'], cells));
}

async function create({ options, terminal }: Invocation, client: GatewayClient, name: string): Promise<void> {
  const scope = SCOPES.find((each) => each === (textOption(options, 'scope') ?? 'all'));
  if (scope === undefined) throw new CapstanError('INVALID_ARGUMENT', `--scope: must be one of ${SCOPES.join(', ')}`, { field: '--scope' });
  const names = textOption(options, 'endpoints');
  const { createKey } = await import('../api/control.ts');
  const made = await createKey(client, {
    name,
    scope: scope.toUpperCase().replace('-', '_'),
    endpoints: names === undefined ? null : names.split(',').map((each) => each.trim()),
    environment: textOption(options, 'env') ?? null,
    expiresInS: readDuration('--expires-in', textOption(options, 'expiresIn')),
    account: textOption(options, 'account') ?? null,
  });
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify({ ...made.key, text: made.text }, null, 2));
    return;
  }
  terminal.value(made.text);
  terminal.done(`key ${made.key.name} (${made.key.id}); its text is shown this once`);
  terminal.next(`capstan keys revoke ${made.key.id}`);
}

async function revoke({ options, terminal }: Invocation, client: GatewayClient, wanted: string): Promise<void> {
  const { revokeKey } = await import('../api/control.ts');
  const revoked = await revokeKey(client, wanted);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(revoked, null, 2));
    return;
  }
  terminal.done(`key ${revoked.name} (${revoked.id}) is revoked`);
  terminal.next('capstan keys list');
}
