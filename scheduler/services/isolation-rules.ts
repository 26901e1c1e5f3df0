/** Rules for the workers of accounts, as requests give them and replies show them. */
import { CapstanError } from '../../lib/errors.ts';
import {
  ACCOUNT_NETWORKS,
  isAccountNetwork,
  isAtLeast,
  isIsolationLevel,
  isWorkerNetwork,
  ISOLATION_LEVELS,
  narrowest,
  WORKER_RUNTIMES,
  type WorkerRuntime,
} from '../../lib/isolation.ts';
import type { EndpointSpec, IsolationRules as RulesMessage, IsolationRulesPatch } from '../../proto/gen/capstan/v1/control.ts';
import type { IsolationRules } from '../core/events.ts';
import type { AccountRow } from '../core/state/control-rows.ts';

type CheckedSpec = Pick<EndpointSpec, 'name' | 'runtime' | 'network' | 'functions'>;

/**
 * Returns the rules in a request.
 * @param row - the account's present rules; undefined for a new account
 * @throws CapstanError INVALID_ARGUMENT that names field and rule
 */
export function rulesOf(patch: IsolationRulesPatch | undefined, row: IsolationRules | undefined): IsolationRules {
  if (patch === undefined) return {};
  const { least, network, runtimes, setRuntimes } = patch;
  if (least !== undefined && !isIsolationLevel(least)) throw invalid('isolation.least', `must be one of ${ISOLATION_LEVELS.join(', ')}`);
  if (network !== undefined && !isAccountNetwork(network))
    throw invalid('isolation.network', `must be one of ${ACCOUNT_NETWORKS.join(', ')}`);
  const allowed = setRuntimes ? runtimeNames(runtimes) : undefined;
  const rules: IsolationRules = {
    ...(least === undefined ? {} : { leastIsolation: least }),
    ...(network === undefined ? {} : { network }),
    ...(allowed === undefined ? {} : { runtimes: allowed }),
  };
  const after = { ...row, ...rules };
  const onlyHost = after.runtimes !== undefined && !after.runtimes.includes('container');
  if (onlyHost && isAtLeast(after.leastIsolation ?? 'none', 'container'))
    throw invalid('isolation.runtimes', `must contain container: no other runtime has the level ${after.leastIsolation ?? ''}`);
  return rules;
}

export function rulesMessage({
  leastIsolation = 'none',
  runtimes,
  network = 'host',
}: Pick<AccountRow, keyof IsolationRules>): RulesMessage {
  return {
    least: leastIsolation,
    runtimes: runtimes === undefined || runtimes.length === WORKER_RUNTIMES.length ? [] : [...runtimes],
    network,
  };
}

/**
 * Validates that an endpoint asks for nothing that its account's rules forbid.
 * @throws CapstanError INVALID_ARGUMENT
 */
export function checkIsolation({ name, runtime, network, functions }: CheckedSpec, rules: IsolationRules): void {
  const { leastIsolation: least = 'none', runtimes = WORKER_RUNTIMES, network: widest = 'host' } = rules;
  const allowed = isAtLeast(least, 'container') ? runtimes.filter((one) => one === 'container') : runtimes;
  if (runtime !== '' && !allowed.some((one) => one === runtime))
    throw invalid(`${name}.runtime`, `must be ${allowed.join(' or ')}: the account allows no other runtime`);
  if (network === 'host' && widest === 'auto')
    throw invalid(`${name}.network`, 'must not be host: the account is not permitted to use the network of the host');
  if (isWorkerNetwork(network) && widest !== 'auto' && narrowest(network, widest) !== network)
    throw invalid(`${name}.network`, `must not be wider than ${widest}, the widest network that the account allows`);
  const hasNone = network === 'none' || widest === 'none';
  if (hasNone && functions.length === 0) {
    const rule = 'must be host or outbound for an endpoint without functions, whose worker is reached over its network';
    throw invalid(`${name}.network`, widest === 'none' ? `${rule}; the account allows none` : rule);
  }
}

/** Returns the runtimes in their usual order; all of them for an empty list. */
function runtimeNames(names: readonly string[]): readonly WorkerRuntime[] {
  const unknown = names.find((name) => !WORKER_RUNTIMES.some((runtime) => runtime === name));
  if (unknown !== undefined) throw invalid('isolation.runtimes', `${JSON.stringify(unknown)} must be one of ${WORKER_RUNTIMES.join(', ')}`);
  return names.length === 0 ? WORKER_RUNTIMES : WORKER_RUNTIMES.filter((runtime) => names.includes(runtime));
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}
