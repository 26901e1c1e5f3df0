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
import type { AccountRow } from '../../state/control-rows.ts';
import type { Release } from '../../state/endpoints.ts';
import type { NodeFacts } from '../../state/node-facts.ts';
import type { Rejected } from '../../state/rejections.ts';

/** The account's rules together with the network that the release asks for. */
export interface IsolationRule {
  readonly least: IsolationLevel;
  readonly runtimes: readonly WorkerRuntime[];
  /** Undefined: the node's default. */
  readonly network: WorkerNetwork | undefined;
  /** Whether that default may be the host's only where the node's operator chose it. */
  readonly isClosed: boolean;
  /** Whether the worker is reached over its network, because it has no functions. */
  readonly listens: boolean;
}

/** The rules of accounts without any. */
export const NO_RULE: IsolationRule = { least: 'none', runtimes: WORKER_RUNTIMES, network: undefined, isClosed: false, listens: false };

type Needs = Pick<Release, 'network' | 'functions'>;

export function isolationRuleOf(state: State, account: string, needs: Needs): IsolationRule {
  return isolationRuleIn(state.accounts.get(account), needs);
}

/** The rule of an account with this row. */
export function isolationRuleIn(row: AccountRow | undefined, { network, functions }: Needs): IsolationRule {
  const rule = row?.network ?? 'host';
  // The host's network is no restriction: which network is then the default is the node's to choose.
  const widest = rule === 'host' || rule === 'auto' ? undefined : rule;
  const isAsked = (network ?? '') !== '' && !(network === 'host' && rule === 'auto');
  const requested = isAsked ? (network as WorkerNetwork) : undefined;
  return {
    least: row?.leastIsolation ?? 'none',
    runtimes: row?.runtimes ?? WORKER_RUNTIMES,
    network: widest === undefined || requested === undefined ? (requested ?? widest) : narrowest(requested, widest),
    isClosed: rule === 'auto',
    listens: functions.length === 0,
  };
}

/** Returns the network that a worker in this runtime has on a node. */
export function networkOn(rule: IsolationRule, runtime: WorkerRuntime, { isolation }: Pick<NodeFacts, 'isolation'>): WorkerNetwork {
  const { usual, closed } = runtime === 'container' ? isolation.containers : isolation.processes;
  return rule.network ?? (rule.isClosed ? closed : usual);
}

/** Returns why a worker in this runtime may not run on a node; null if it may. */
export function isolationObjection(rule: IsolationRule, runtime: WorkerRuntime, facts: Pick<NodeFacts, 'isolation'>): Rejected | null {
  const { isolation } = facts;
  const { level, networks } = runtime === 'container' ? isolation.containers : isolation.processes;
  if (!rule.runtimes.includes(runtime))
    return tooWeak(`would run in the runtime ${runtime}; the account allows ${rule.runtimes.join(' and ')}`);
  if (!isAtLeast(level, rule.least)) return tooWeak(`isolation ${level} for the runtime ${runtime}; the account requires ${rule.least}`);
  if (rule.network !== undefined && !networks.has(rule.network)) return tooWeak(`no network ${rule.network} for the runtime ${runtime}`);
  if (rule.listens && networkOn(rule, runtime, facts) === 'none')
    return tooWeak(
      `no network but the host's for the runtime ${runtime}; the account may not have that, and the endpoint is reached over its network`,
    );
  return null;
}

function tooWeak(detail: string): Rejected {
  return { reason: 'ISOLATION_TOO_WEAK', detail };
}
