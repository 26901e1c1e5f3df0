import { CapstanError } from '../../lib/errors.ts';
import type { Fleet } from '../api/fleet.ts';
import type { SchedulerClient } from '../api/scheduler-client.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { withFleet } from '../gateway.ts';
import { withScheduler } from '../local.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['token', 'tokens', 'revoke', 'drain', 'resume', 'remove'] as const;
type Action = (typeof ACTIONS)[number];
type Change = 'drain' | 'resume' | 'remove';

/** Seconds of each unit of a duration. */
const UNITS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** `capstan node <action> [what]`: lets hosts join, takes them out of use, and removes them. */
export const node: Command = {
  name: 'node',
  summary: 'Let hosts join, take them out of use and back, or remove them.',
  arguments: [
    { name: 'action', description: ACTIONS.join(', ') },
    { name: 'what', description: 'drain, resume, remove: id or name of a node; revoke: id of a join token', optional: true },
  ],
  options: [
    { flags: '--name <name>', description: 'token: what it is for' },
    { flags: '--expires-in <duration>', description: 'token: until when it is good, for example 30m, 12h or 7d (never expires)' },
    { flags: '--max-uses <nodes>', description: 'token: how many nodes may join with it (any number)' },
    { flags: '--force', description: 'remove: also with workers on it; what they run is given to other nodes' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run(invocation) {
    const { args, options, env } = invocation;
    const action = ACTIONS.find((name) => name === args[0]);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action === 'token' || action === 'tokens') takesOnly(action, args, 1);
    const settings = readSettings(options, env);
    if (action === 'drain' || action === 'resume' || action === 'remove')
      await withFleet(settings, env, options, (fleet) => changeNode(invocation, fleet, action));
    else await withScheduler(settings, (client) => carryOut(invocation, client, action));
  },
};

function carryOut(invocation: Invocation, client: SchedulerClient, action: Exclude<Action, Change>): Promise<void> {
  switch (action) {
    case 'token':
      return createToken(invocation, client);
    case 'tokens':
      return listTokens(invocation, client);
    case 'revoke':
      return revoke(invocation, client);
  }
}

async function createToken({ options, terminal }: Invocation, client: SchedulerClient): Promise<void> {
  const expiresInS = seconds(textOption(options, 'expiresIn'));
  const maxUses = wholeNumber('max-uses', textOption(options, 'maxUses'));
  const { joinToken, id } = await client.createJoinToken({ name: textOption(options, 'name') ?? '', expiresInS, maxUses });
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify({ id, joinToken }, null, 2));
    return;
  }
  terminal.value(joinToken);
  terminal.warn(`it is shown this once; capstan node revoke ${id} takes it back`);
  terminal.next(`CAPSTAN_SCHEDULER=<host:port> CAPSTAN_JOIN_TOKEN_FILE=<file with the token> capstan agent`);
}

async function listTokens({ options, terminal }: Invocation, client: SchedulerClient): Promise<void> {
  const rows = (await client.listJoinTokens()).map(({ id, name, createdAtMs, expiresAtMs, maxUses, uses }) => ({
    id,
    name,
    created: isoTime(createdAtMs),
    expires: isoTime(expiresAtMs),
    maxUses: maxUses === 0 ? null : maxUses,
    uses,
  }));
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  terminal.data(
    renderTable(
      ['ID', 'NAME', 'CREATED', 'EXPIRES', 'USED'],
      rows.map((row) => [
        row.id,
        row.name,
        row.created ?? '',
        row.expires ?? 'never',
        `${row.uses}${row.maxUses === null ? '' : `/${row.maxUses}`}`,
      ]),
    ),
  );
}

async function revoke(invocation: Invocation, client: SchedulerClient): Promise<void> {
  const id = needed(invocation, 'what', 'revoke needs the id of a join token; capstan node tokens lists them');
  await client.revokeJoinToken(id);
  report(invocation, { revoked: id }, `no node joins with ${id} any more`);
}

async function changeNode(invocation: Invocation, fleet: Fleet, action: Change): Promise<void> {
  const { findNode } = await import('../api/find-node.ts');
  const wanted = needed(invocation, 'what', `${action} needs a node, by id or name`);
  const { id, name } = findNode(await fleet.nodes(), wanted);
  if (action === 'remove') {
    await fleet.removeNode(id, flagOption(invocation.options, 'force'));
    report(invocation, { removed: id }, `${name} is removed; its agent ends when it hears of it`);
    return;
  }
  const row = await (action === 'drain' ? fleet.drainNode(id) : fleet.resumeNode(id));
  const text = action === 'drain' ? `${name} gets no new work; ${row?.jobs ?? 0} jobs still run there` : `${name} is in use again`;
  report(invocation, row, text);
  if (action === 'drain' && !flagOption(invocation.options, 'json')) invocation.terminal.next('capstan nodes');
}

function report({ options, terminal }: Invocation, data: unknown, text: string): void {
  if (flagOption(options, 'json')) terminal.data(JSON.stringify(data, null, 2));
  else terminal.done(text);
}

function needed({ args }: Invocation, field: string, rule: string): string {
  const given = args[1];
  if (given === undefined || given === '') throw new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
  return given;
}

/** `30m` in seconds; 0 for none. */
function seconds(text: string | undefined): number {
  if (text === undefined) return 0;
  const [, digits, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const value = Number(digits ?? 0) * UNITS[(unit ?? 's') as keyof typeof UNITS];
  if (value < 1 || value > 2 ** 32 - 1)
    throw new CapstanError('INVALID_ARGUMENT', `expires-in: ${JSON.stringify(text)} must be a number with s, m, h or d, for example 12h`, {
      field: 'expires-in',
    });
  return value;
}

function wholeNumber(field: string, text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new CapstanError('INVALID_ARGUMENT', `${field}: ${JSON.stringify(text)} must be a whole number from 1`, { field });
  return Number(text);
}

/** ISO 8601; null for a time that is not set. */
function isoTime(ms: bigint): string | null {
  return ms === 0n ? null : new Date(Number(ms)).toISOString();
}
