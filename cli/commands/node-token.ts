import { printResult, type Command, type CommandGroup } from '../command.ts';
import { countOption, textOption } from '../options.ts';
import { readSettings, SCHEDULER_SETTINGS } from '../config.ts';
import { readDuration } from '../duration.ts';
import { withScheduler } from '../local.ts';
import { ageOf } from '../terminal/age.ts';
import { renderTable } from '../terminal/table.ts';

const create: Command = {
  name: 'create',
  summary: 'Create a join token, with which hosts join as nodes. It is shown only once.',
  options: [
    { flags: '--name <name>', description: 'what it is for' },
    { flags: '--expires-in <duration>', description: 'validity, such as 30m, 12h or 7d', default: 'no expiry' },
    { flags: '--max-uses <nodes>', description: 'how many nodes may join with it', default: 'no limit' },
  ],
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['node token create', 'node token create --name rack-7 --expires-in 12h --max-uses 4'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const request = {
      name: textOption(options, 'name') ?? '',
      expiresInS: readDuration('--expires-in', textOption(options, 'expiresIn')) ?? 0,
      maxUses: countOption(options, 'maxUses', '--max-uses') ?? 0,
    };
    const { joinToken, id } = await withScheduler(readSettings(options, env), (client) => client.createJoinToken(request));
    printResult(invocation, { id, joinToken }, () => {
      terminal.value(joinToken);
      terminal.warn(`Save this token; it won't be shown again. To revoke it: capstan node token revoke ${id}`);
      terminal.next('CAPSTAN_SCHEDULER=<host:port> CAPSTAN_JOIN_TOKEN_FILE=<file with the token> capstan agent');
    });
  },
};

const list: Command = {
  name: 'list',
  summary: 'List the valid join tokens.',
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['node token list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const tokens = await withScheduler(readSettings(options, env), (client) => client.listJoinTokens());
    const rows = tokens.map(({ id, name, createdAtMs, expiresAtMs, maxUses, uses }) => ({
      id,
      name,
      created: isoTime(createdAtMs),
      expires: isoTime(expiresAtMs),
      maxUses: maxUses === 0 ? null : maxUses,
      uses,
    }));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.id,
        row.name,
        ageOf(row.created),
        row.expires ?? 'never',
        row.maxUses === null ? String(row.uses) : `${row.uses}/${row.maxUses}`,
      ]);
      terminal.data(renderTable(['ID', 'NAME', 'AGE', 'EXPIRES', 'USES'], cells));
    });
  },
};

const revoke: Command = {
  name: 'revoke',
  summary: 'Revoke a join token. Nodes that joined with it stay.',
  aliases: ['delete'],
  arguments: [{ name: 'token', description: 'id of the join token' }],
  settings: SCHEDULER_SETTINGS,
  json: true,
  examples: ['node token revoke 4fd1c2'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [id = ''] = args;
    await withScheduler(readSettings(options, env), (client) => client.revokeJoinToken(id));
    printResult(invocation, { revoked: id }, () => terminal.done(`Revoked join token ${id}`));
  },
};

/** `capstan node token`: join tokens. */
export const nodeTokens: CommandGroup = {
  name: 'token',
  summary: 'Manage join tokens.',
  aliases: ['tokens'],
  commands: [create, list, revoke],
};

/** ISO 8601; null for a time that is not set. */
function isoTime(ms: bigint): string | null {
  return ms === 0n ? null : new Date(Number(ms)).toISOString();
}
