/** What an account requires of the isolation of its workers, and whether a node has it. */
import {
  isAtLeast,
  narrowest,
  WORKER_RUNTIMES,
  type IsolationLevel,
  type WorkerNetwork,
  type WorkerRuntime,
} from '../../../../lib/isolation.ts';
import type { State } from '../../state.ts';
import type { Release } from '../../state/endpoints.ts';
import type { NodeFacts } from './node-facts.ts';
import type { Rejected } from './rejections.ts';

/** The account's rules together with the network that the release asks for. */
export interface IsolationRule {
  readonly least: IsolationLevel;
  readonly runtimes: readonly WorkerRuntime[];
  /** Undefined: the node's default. */
  readonly network: WorkerNetwork | undefined;
}

/** The rules of accounts without any. */
export const NO_RULE: IsolationRule = { least: 'none', runtimes: WORKER_RUNTIMES, network: undefined };

export function isolationRuleOf(state: State, account: string, { network }: Pick<Release, 'network'>): IsolationRule {
  const row = state.accounts.get(account);
  const rule = row?.network ?? 'host';
  // The host's network is no restriction: which network is then the default is the node's to choose.
  const widest = rule === 'host' || rule === 'auto' ? undefined : rule;
  const isAsked = (network ?? '') !== '' && !(network === 'host' && rule === 'auto');
  const asked = isAsked ? (network as WorkerNetwork) : undefined;
  return {
    least: row?.leastIsolation ?? 'none',
    runtimes: row?.runtimes ?? WORKER_RUNTIMES,
    network: widest === undefined || asked === undefined ? (asked ?? widest) : narrowest(asked, widest),
  };
}

/** Returns why a worker in this runtime may not run on a node; null if it may. */
export function isolationObjection(
  rule: IsolationRule,
  runtime: WorkerRuntime,
  { isolation }: Pick<NodeFacts, 'isolation'>,
): Rejected | null {
  const { level, networks } = runtime === 'container' ? isolation.containers : isolation.processes;
  if (!rule.runtimes.includes(runtime))
    return tooWeak(`would run in the runtime ${runtime}; the account allows ${rule.runtimes.join(' and ')}`);
  if (!isAtLeast(level, rule.least)) return tooWeak(`isolation ${level} for the runtime ${runtime}; the account requires ${rule.least}`);
  if (rule.network !== undefined && !networks.has(rule.network)) return tooWeak(`no network ${rule.network} for the runtime ${runtime}`);
  return null;
}

function tooWeak(detail: string): Rejected {
  return { reason: 'ISOLATION_TOO_WEAK', detail };
}
