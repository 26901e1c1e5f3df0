import type { KeyScope } from '../../client/graphql/gen/operations.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { readDuration } from '../command/duration.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';

const SCOPES: Readonly<Record<string, KeyScope>> = {
  all: 'ALL',
  endpoints: 'ENDPOINTS',
  'read-only': 'READ_ONLY',
  environment: 'ENVIRONMENT',
  operator: 'OPERATOR',
};

const accountOption = { flags: '--account <account>', description: 'account of the key; requires an operator key', default: 'your own' };

const list: Command = {
  name: 'list',
  summary: 'List the API keys, without their plaintext.',
  options: [accountOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['keys list', 'keys list --account team'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listKeys } = await import('../api/control.ts');
    const rows = await listKeys(await connect(readSettings(options, env), env), textOption(options, 'account') ?? null);
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.id,
        row.name,
        `${row.prefix}…`,
        row.scope,
        row.environment ?? row.endpoints.join(', '),
        ageOf(row.createdAt),
        row.expiresAt ?? 'never',
        row.lastUsedAt === null ? 'never' : `${ageOf(row.lastUsedAt)} ago`,
      ]);
      terminal.table({
        head: ['ID', 'NAME', 'PREFIX', 'SCOPE', 'RESOURCES', 'AGE', 'EXPIRES', 'LAST USED'],
        rows: cells,
        optional: ['RESOURCES', 'PREFIX', 'EXPIRES', 'AGE'],
        cut: ['RESOURCES'],
      });
    });
  },
};

const create: Command = {
  name: 'create',
  summary: 'Create an API key. It is shown only once.',
  arguments: [{ name: 'name', description: 'name of the key' }],
  options: [
    { flags: '--scope <scope>', description: 'what the key permits', choices: Object.keys(SCOPES), default: 'all' },
    { flags: '--endpoints <a,b>', description: 'endpoints of a key with the scope endpoints, by id or name' },
    {
      flags: '--env <environment>',
      description: 'environment of a key with the scope environment, and of endpoints given by name',
      default: 'default',
    },
    { flags: '--expires-in <duration>', description: 'validity, such as 12h or 90d', default: 'no expiry' },
    accountOption,
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['keys create ci --expires-in 90d', 'keys create app --scope endpoints --endpoints hello,bye'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const names = textOption(options, 'endpoints');
    const { createKey } = await import('../api/control.ts');
    const { key, plaintext } = await createKey(await connect(readSettings(options, env), env), {
      name: args[0] ?? '',
      scope: SCOPES[textOption(options, 'scope') ?? 'all'] ?? 'ALL',
      endpoints: names === undefined ? null : names.split(',').map((each) => each.trim()),
      environment: textOption(options, 'env') ?? null,
      expiresInS: readDuration('--expires-in', textOption(options, 'expiresIn')),
      account: textOption(options, 'account') ?? null,
    });
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify({ ...key, plaintext, text: plaintext }, null, 2));
      return;
    }
    terminal.value(plaintext);
    terminal.done(`Created key ${key.name} (${key.id})`);
    terminal.warn("Save this key; it won't be shown again");
  },
};

const revoke: Command = {
  name: 'revoke',
  summary: 'Revoke an API key, effective immediately.',
  aliases: ['delete'],
  arguments: [{ name: 'key', description: 'id or name' }],
  options: [accountOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [key = ''] }) => `Revoke key ${key}? It is refused at once.`,
  examples: ['keys revoke ci'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { revokeKey } = await import('../api/control.ts');
    const revoked = await revokeKey(await connect(readSettings(options, env), env), args[0] ?? '', textOption(options, 'account') ?? null);
    printResult(invocation, revoked, () => terminal.done(`Revoked key ${revoked.name} (${revoked.id})`));
  },
};

/** `capstan keys`: API keys. */
export const keys: CommandGroup = {
  name: 'keys',
  summary: 'List, create and revoke API keys.',
  commands: [list, create, revoke],
};
