import { printResult, type Command, type Invocation } from '../command.ts';
import { GATEWAY_SETTINGS, readSettings, type Settings } from '../config.ts';
import { connect, gatewayOf, gatewaySource } from '../gateway.ts';
import { textOption } from '../options.ts';
import { renderTable } from '../terminal/table.ts';
import { errorTable } from '../../lib/errors.ts';
import type { KeyOwner, ServiceState } from '../api/service-state.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';

interface Status extends ServiceState {
  readonly url: string;
  /** Where the tool has the URL from. */
  readonly source: string;
  readonly owner: KeyOwner | null;
  readonly endpoints: readonly EndpointRow[] | null;
  /** Why owner and endpoints are unknown; empty when they are known. */
  readonly problem: string;
}

/** `capstan status`: what is up, as whom the tool calls it, and where. */
export const status: Command = {
  name: 'status',
  summary: 'Show the service that the tool calls, whether it is up, the owner of the key, and the endpoints.',
  options: [{ flags: '--env <environment>', description: 'only endpoints of this environment', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['status', 'status --json'],
  async run(invocation) {
    const settings = readSettings(invocation.options, invocation.env);
    const found = await statusOf(invocation, settings);
    printResult(invocation, found, () => printStatus(invocation, found));
    return found.problem === '' && found.state === 'up' ? 0 : errorTable.UNAVAILABLE.exit;
  },
};

async function statusOf({ options, env }: Invocation, settings: Settings): Promise<Status> {
  const [{ ownerOf, problemText, serviceState }, { listEndpoints }] = await Promise.all([
    import('../api/service-state.ts'),
    import('../api/control.ts'),
  ]);
  const { url, key } = gatewayOf(settings, env);
  const base = { url, source: gatewaySource(settings, env), ...(await serviceState(url)) };
  try {
    const client = await connect(settings, env);
    const [owner, endpoints] = await Promise.all([ownerOf(client, key), listEndpoints(client, textOption(options, 'env') ?? null)]);
    return { ...base, owner, endpoints, problem: '' };
  } catch (error) {
    return { ...base, owner: null, endpoints: null, problem: problemText(error) };
  }
}

function printStatus({ terminal }: Invocation, { url, source, state, version, owner, endpoints, problem }: Status): void {
  const words = { up: `up, version ${version}`, degraded: `up, version ${version}, but its scheduler is not reachable`, down: 'down' };
  terminal.value(`service    ${url} (${source}): ${words[state]}`);
  if (owner !== null) terminal.value(`you        ${ownerLine(owner)}`);
  if (owner?.account != null) terminal.value(`workers    ${owner.account.quota.used} of ${owner.account.quota.workers} of the quota`);
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
    if (cells.length > 0)
      terminal.data(`\n${renderTable(['NAME', 'ENVIRONMENT', 'KIND', 'WORKERS', 'QUEUED', 'RUNNING', 'REASON'], cells)}`);
  }
  if (problem !== '') terminal.fail(problem);
  if (state === 'down') terminal.next('capstan up');
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
