import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { countOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { readDuration } from '../command/duration.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { cellColumn, cellOption } from './cells.ts';

const create: Command = {
  name: 'create',
  summary: 'Create a join token, which lets hosts join as nodes. It is shown only once. Requires an operator key.',
  options: [
    { flags: '--name <name>', description: 'what the token is for' },
    { flags: '--expires-in <duration>', description: 'validity, such as 30m, 12h or 7d, or `never`', default: '24h' },
    { flags: '--max-uses <nodes>', description: 'number of nodes that may join with it', default: '100' },
    cellOption('cell that they join'),
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['node token create', 'node token create --name rack-7 --expires-in 12h --max-uses 4'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const expiresIn = textOption(options, 'expiresIn');
    const neverExpires = expiresIn === 'never';
    const request = {
      name: textOption(options, 'name') ?? '',
      expiresInS: neverExpires ? null : readDuration('--expires-in', expiresIn),
      neverExpires,
      maxUses: countOption(options, 'maxUses', '--max-uses') ?? null,
      cell: textOption(options, 'cell') ?? null,
    };
    const { createJoinToken } = await import('../api/join-tokens.ts');
    const { plaintext, token } = await createJoinToken(await connect(readSettings(options, env), env), request);
    printResult(invocation, { ...token, joinToken: plaintext }, () => {
      terminal.value(plaintext);
      terminal.done(
        `Created join token ${token.id}, which ${token.expiresAt === null ? 'never expires' : `expires at ${token.expiresAt}`}`,
      );
      terminal.warn("Save this token; it won't be shown again");
      terminal.next('CAPSTAN_SCHEDULER=<host:port> CAPSTAN_JOIN_TOKEN_FILE=<file with the token> capstan agent');
    });
  },
};

const list: Command = {
  name: 'list',
  summary: 'List the valid join tokens. Requires an operator key.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['node token list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listJoinTokens } = await import('../api/join-tokens.ts');
    const rows = await listJoinTokens(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const column = cellColumn(rows);
      const cells = rows.map((row) => [
        row.id,
        ...column.of(row.cell),
        row.name,
        ageOf(row.createdAt),
        row.expiresAt ?? 'never',
        row.maxUses === null ? String(row.uses) : `${row.uses}/${row.maxUses}`,
      ]);
      terminal.table({ head: ['ID', ...column.head, 'NAME', 'AGE', 'EXPIRES', 'USES'], rows: cells, optional: ['AGE'] });
    });
  },
};

const revoke: Command = {
  name: 'revoke',
  summary: 'Revoke a join token. Nodes that joined with it stay. Requires an operator key.',
  aliases: ['delete'],
  arguments: [{ name: 'token', description: 'id of the join token' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [token = ''] }) => `Revoke join token ${token}?`,
  examples: ['node token revoke 4fd1c2'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { revokeJoinToken } = await import('../api/join-tokens.ts');
    const token = await revokeJoinToken(await connect(readSettings(options, env), env), args[0] ?? '');
    printResult(invocation, token, () => terminal.done(`Revoked join token ${token.id}`));
  },
};

/** `capstan node token`: join tokens. */
export const nodeTokens: CommandGroup = {
  name: 'token',
  summary: 'Manage join tokens.',
  aliases: ['tokens'],
  commands: [create, list, revoke],
};
