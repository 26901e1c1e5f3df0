import { printResult, type Command, type Invocation } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings, type Settings } from '../../terminal/config.ts';
import { connect, gatewayOf, gatewaySource } from '../../client/gateway.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { ageOf } from '../../terminal/age.ts';
import { endWish } from '../../terminal/end-signals.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { errorTable } from '../../lib/errors.ts';
import type { KeyOwner, ServiceState } from '../api/service-state.ts';
import type { AttentionList } from '../api/attention.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { setTimeout } from 'node:timers/promises';

interface Status extends ServiceState {
  readonly url: string;
  /** Where the tool has the URL from. */
  readonly source: string;
  readonly owner: KeyOwner | null;
  readonly endpoints: readonly EndpointRow[] | null;
  /** Null where it is unknown, and for a key that does not cover the whole account. */
  readonly attention: AttentionList | null;
  /** Why owner, endpoints and attention are unknown; empty when they are known. */
  readonly problem: string;
}

/** Interval of `--watch`, ms. */
const WATCH_MS = 2_000;

/** `capstan status`: what is up, as whom the tool calls it, where, and what needs attention. */
export const status: Command = {
  name: 'status',
  summary: 'Show the service that the tool calls, whether it is up, the owner of the key, what needs attention, and the endpoints.',
  options: [
    { flags: '--env <environment>', description: 'only endpoints of this environment', default: 'all' },
    { flags: '-w, --watch', description: 'show it anew every 2 s, until Ctrl+C' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['status', 'status --watch', 'status --json'],
  async run(invocation) {
    const settings = readSettings(invocation.options, invocation.env);
    if (!flagOption(invocation.options, 'watch')) return show(invocation, await statusOf(invocation, settings));
    const { terminal, options } = invocation;
    const ended = new AbortController();
    void endWish().wished.then(() => ended.abort());
    for (;;) {
      const found = await statusOf(invocation, settings);
      if (!flagOption(options, 'json')) terminal.top();
      const code = show(invocation, found);
      await setTimeout(WATCH_MS, undefined, { signal: ended.signal }).catch(() => undefined);
      if (!ended.signal.aborted) continue;
      if (process.connected) process.disconnect();
      return code;
    }
  },
};

/** Prints the status; returns the exit code: 0 only when all is well. */
function show(invocation: Invocation, found: Status): number {
  printResult(invocation, found, () => printStatus(invocation, found));
  const { problem, state, attention } = found;
  const isWell = problem === '' && state === 'up' && (attention === null || attention.items.length + attention.omitted === 0);
  return isWell ? 0 : errorTable.UNAVAILABLE.exit;
}

async function statusOf({ options, env }: Invocation, settings: Settings): Promise<Status> {
  const [{ ownerOf, problemText, serviceState }, { listEndpoints }, { listAttention }] = await Promise.all([
    import('../api/service-state.ts'),
    import('../api/control.ts'),
    import('../api/attention.ts'),
  ]);
  const { url, key } = gatewayOf(settings, env);
  const base = { url, source: gatewaySource(settings, env), ...(await serviceState(url)) };
  try {
    const client = await connect(settings, env);
    const [owner, endpoints, attention] = await Promise.all([
      ownerOf(client, key),
      listEndpoints(client, textOption(options, 'env') ?? null),
      listAttention(client),
    ]);
    return { ...base, owner, endpoints, attention, problem: '' };
  } catch (error) {
    return { ...base, owner: null, endpoints: null, attention: null, problem: problemText(error) };
  }
}

function printStatus({ terminal }: Invocation, { url, source, state, version, owner, endpoints, attention, problem }: Status): void {
  const words = { up: `up, version ${version}`, degraded: `up, version ${version}, but its scheduler is not reachable`, down: 'down' };
  terminal.value(`service    ${url} (${source}): ${words[state]}`);
  if (owner !== null) terminal.value(`you        ${ownerLine(owner)}`);
  if (owner?.account != null) terminal.value(`workers    ${owner.account.quota.used} of ${owner.account.quota.workers} of the quota`);
  if (attention !== null) printAttention(terminal, attention);
  if (endpoints !== null) {
    terminal.value(`endpoints  ${endpoints.length}`);
    const cells = endpoints.map((row) => [
      row.name,
      row.environment,
      row.kind,
      `${row.workers}/${row.workersMax}`,
      String(row.jobsInQueue),
      String(row.jobsInProgress),
      row.queueReason,
    ]);
    if (cells.length > 0) {
      terminal.data('');
      terminal.table({
        head: ['NAME', 'ENVIRONMENT', 'KIND', 'WORKERS', 'QUEUED', 'RUNNING', 'REASON'],
        rows: cells,
        optional: ['KIND', 'ENVIRONMENT'],
      });
    }
  }
  if (problem !== '') terminal.fail(problem);
  if (state === 'down') terminal.next('capstan up');
}

function printAttention(terminal: Terminal, { items, omitted }: AttentionList): void {
  if (items.length === 0 && omitted === 0) {
    terminal.value('attention  nothing');
    return;
  }
  terminal.value(`attention  ${items.length + omitted}`);
  for (const { severity, kind, since, message, runbook, actions, effects } of items) {
    terminal.value(`  ${severity === 'CRITICAL' ? '✗' : '!'} ${message}${sinceText(since)} [${kind}]`);
    for (const effect of effects) terminal.value(`      ${effect.message}${sinceText(effect.since)} [${effect.kind}]`);
    for (const { label, command } of actions) terminal.value(`    ${label.toLowerCase()}: ${command}`);
    terminal.value(`    see docs/${runbook}`);
  }
  if (omitted > 0) terminal.value(`  ${omitted} more are not listed`);
}

/** Since when, for people who look at their clock, and for how long. */
function sinceText(since: string | null): string {
  return since === null ? '' : `, since ${since.slice(0, 19).replace('T', ' ')} UTC (${ageOf(since)})`;
}

function ownerLine({ account, key }: KeyOwner): string {
  if (account === null) return 'a key that does not cover the whole account';
  if (key === null) return `account ${account.id}`;
  const expiry = key.expiresAt === null ? '' : `, expires ${key.expiresAt}`;
  return `account ${account.id}, key ${key.name === '' ? '' : `${key.name} `}(${key.prefix}…, scope ${key.scope}${expiry})`;
}

/** `capstan whoami`: the account and the key that the tool uses. */
export const whoami: Command = {
  name: 'whoami',
  summary: 'Show the account and the key that the tool uses, and the service that it calls.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['whoami'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const settings = readSettings(options, env);
    const { ownerOf } = await import('../api/service-state.ts');
    const { url, key } = gatewayOf(settings, env);
    const owner = await ownerOf(await connect(settings, env), key);
    const source = gatewaySource(settings, env);
    const found = { url, source, account: owner.account?.id ?? null, key: owner.key };
    printResult(invocation, found, () => terminal.value(`${ownerLine(owner)}, at ${url} (${source})`));
  },
};
