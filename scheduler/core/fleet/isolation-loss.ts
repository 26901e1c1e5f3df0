/**
 * Retires workers whose node isolates them less than their account requires: its rule became stricter, or the node's
 * agent came back with a weaker level. They finish their jobs, and others start where the rule holds.
 */
import { narrowest } from '../../../lib/isolation.ts';
import type { StepContext } from '../context.ts';
import type { State } from '../state.ts';
import type { AccountRow } from '../state/control-rows.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { listedWorker, nodeOfWorker } from '../references.ts';
import { isolationObjection, isolationRuleIn, isolationRuleOf, networkOn, type IsolationRule } from './placement/isolation-rule.ts';
import { retireWorkers, type RetiredWorker } from './retire-workers.ts';

const MESSAGE = 'draining worker: it is isolated less than its account requires';

/** Drains those of the workers that their account's rule does not allow where they are. */
export function retireTooWeak(ctx: StepContext, workers: Iterable<string>): void {
  const retired: RetiredWorker[] = [];
  for (const id of workers) {
    const worker = listedWorker(ctx.state, id);
    if (worker.drain) continue;
    const reason = weaknessOf(ctx.state, worker);
    if (reason !== null) retired.push({ worker, reason });
  }
  retireWorkers(ctx, retired, MESSAGE);
}

/**
 * The same for all workers of an account, whose endpoints are scaled anew: those that found no place may find one. Workers keep the
 * network that they were started with, so those that would get a narrower one now are replaced, too. `former` is the
 * account's row before the change.
 */
export function accountRuleChanged(ctx: StepContext, account: string, former: AccountRow | undefined): void {
  const workers: string[] = [];
  for (const endpoint of ctx.state.endpoints.values()) {
    if (endpoint.config.account !== account) continue;
    workers.push(...endpoint.workers);
    ctx.state.dirtyEndpoints.add(endpoint.config.id);
  }
  retireTooWeak(ctx, workers);
  const retired: RetiredWorker[] = [];
  for (const id of workers) {
    const worker = listedWorker(ctx.state, id);
    if (worker.drain) continue;
    const reason = widthOf(ctx.state, worker, former);
    if (reason !== null) retired.push({ worker, reason });
  }
  retireWorkers(ctx, retired, MESSAGE);
}

/** Returns why the network of a worker is wider than its account allows now; null if it is not. */
function widthOf(state: State, worker: WorkerRecord, former: AccountRow | undefined): string | null {
  const node = nodeOfWorker(state, worker);
  const account = state.endpoints.get(worker.endpoint)?.config.account;
  const release = state.releases.get(worker.release);
  // A database that was restored in part lacks one of the rows.
  if (account === undefined || release === undefined) return null;
  const formerRule = isolationRuleIn(former, release);
  const rule = isolationRuleOf(state, account, release);
  if (node.facts === null) {
    // It has not reported since the scheduler's start. Its worker may have the widest network that the former rule allowed.
    return widthOfRule(rule) < widthOfRule(formerRule)
      ? `the account's rule for networks became stricter before the node ${node.config.name} reported`
      : null;
  }
  const before = networkOn(formerRule, worker.runtime, node.facts);
  const now = networkOn(rule, worker.runtime, node.facts);
  return now === before || narrowest(before, now) === before
    ? null
    : `network ${before} for the runtime ${worker.runtime}; the account's workers have ${now} there (node ${node.config.name})`;
}

/** Orders rules by the widest network that they allow on any node. */
function widthOfRule({ network, isClosed }: IsolationRule): number {
  if (network !== undefined) return ['none', 'outbound', 'host'].indexOf(network) * 2;
  return isClosed ? 3 : 4;
}

function weaknessOf(state: State, worker: WorkerRecord): string | null {
  const node = state.nodes.get(worker.node);
  const account = state.endpoints.get(worker.endpoint)?.config.account;
  const release = state.releases.get(worker.release);
  // A node that has not reported since the scheduler's start is looked at when it does.
  if (node?.facts == null || account === undefined || release === undefined) return null;
  const objection = isolationObjection(isolationRuleOf(state, account, release), worker.runtime, node.facts);
  return objection === null ? null : `${objection.detail} (node ${node.config.name})`;
}
