/**
 * Makes room for waiting jobs that no node can take. The rules:
 *
 *   - Only jobs of normal priority, and held requests, that would have a place without the workers that end. Not in a
 *     crash loop.
 *   - Idle workers above their endpoint's workersMin end, unless it sets keepIdle: first those still starting for which
 *     nothing waits, then the least recently used. The fewest that suffice, of whatever account.
 *   - An idle worker stays for as long as its start took, within bounds: so at least half of a device's time is used.
 *   - Where every worker is busy, an endpoint without any worker gets a turn: a worker that has run for a multiple of its
 *     start time gets no more jobs and drains when it is idle. Its endpoint waits then, for its own turn. So endpoints
 *     that share a device are served in runs, and none starves.
 *   - The room is claimed (claims.ts): no other endpoint gets it, and no second worker ends for the same job.
 */
import { present } from '../../../lib/invariant.ts';
import type { StepContext } from '../context.ts';
import { addClaim, releaseClaim, releaseClaims } from '../fleet/placement/claims.ts';
import { wanted, type Wanted } from '../fleet/placement/feasible.ts';
import type { Room } from '../fleet/placement/room-search.ts';
import { drainWorker } from '../fleet/workers.ts';
import { findFreeSlot } from '../jobs/dispatch.ts';
import { first } from '../jobs/lanes.ts';
import { runsAlone } from '../jobs/running-apart.ts';
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { Claim } from '../state/fleet.ts';
import { listedWorkers } from '../references.ts';
import { avoidedNodes, inCrashLoop } from '../endpoints/crash-loops.ts';
import { noteDecision } from '../endpoints/decisions.ts';
import { loadOf } from './load.ts';
import type { PreemptionRound } from './preemption-round.ts';
import { aboveMin, isIdle, isLeaving, mayLeave } from './preemptible.ts';

/** Makes room for an endpoint whose wanted workers have no place, if its jobs wait. */
export function preempt(ctx: StepContext, endpoint: EndpointRecord, round: PreemptionRound): void {
  const { state, now } = ctx;
  const release = state.releases.get(endpoint.config.release);
  const { waiting } = loadOf(state, endpoint, now);
  if (release === undefined || waiting === 0 || inCrashLoop(endpoint) || isServed(ctx, endpoint)) {
    releaseClaims(state, endpoint);
    return;
  }
  for (const claim of endpoint.claims) if (isVoid(state, now, claim)) releaseClaim(state, endpoint, claim);
  drainYielding(ctx, endpoint);
  const staying = listedWorkers(state, endpoint.workers).filter(({ drain }) => !drain);
  const starting = staying.filter(({ ready }) => !ready).length;
  const slots = Math.max(1, release.maxConcurrency);
  const needed = Math.min(endpoint.unplaced.count, Math.ceil(waiting / slots) - starting);
  const pending = endpoint.claims.filter((claim) => !isFirm(state, claim));
  let missing = needed - (endpoint.claims.length - pending.length);
  if (missing <= 0 || now.mono < endpoint.preemptAfter) return;
  const want = wanted(state, endpoint.config, release);
  const avoid = avoidedNodes(endpoint, now);
  for (; missing > 0; missing--) {
    const room = round.find('idle', endpoint, { want, avoid });
    if (room === null) break;
    // Room without waiting for a busy worker.
    const replaced = pending.pop();
    if (replaced !== undefined) releaseClaim(state, endpoint, replaced);
    take(ctx, endpoint, { want, room });
  }
  if (missing > 0 && staying.length === 0 && endpoint.claims.length === 0) {
    const room = round.find('after-turn', endpoint, { want, avoid });
    if (room !== null) take(ctx, endpoint, { want, room });
  }
  if (missing > 0) endpoint.preemptAfter = now.mono + round.pauseMs;
}

/** Whether the first job that waits is about to be dispatched. */
function isServed({ state, now }: StepContext, endpoint: EndpointRecord): boolean {
  const head = endpoint.workers.size === 0 ? null : first(endpoint.lanes[0]);
  if (head === null) return false;
  const request = { queuePosition: head.queuePosition, isApart: runsAlone(state, head) };
  return findFreeSlot(state, endpoint, now, request) !== null;
}

interface Found {
  readonly want: Wanted;
  readonly room: Room;
}

/** Claims the room; its idle workers drain at once. */
function take(ctx: StepContext, endpoint: EndpointRecord, { want, room }: Found): void {
  const { node, fit, victims, workers } = room;
  const { cpuMillis, memoryBytes } = want.reserve;
  const devices = fit.devices.map(({ uuid }) => uuid);
  const claim = { endpoint: want.endpoint, node: node.config.id, devices, cpuMillis, memoryBytes, workers: workers.map(({ id }) => id) };
  addClaim(ctx.state, endpoint, claim);
  if (victims.length === 0) return;
  const owners = [...new Set(victims.map((worker) => nameFor(ctx.state, endpoint, worker.endpoint)))].join(', ');
  const count = victims.length === 1 ? 'a worker' : `${victims.length} workers`;
  const ends = victims.length === 1 ? 'ends' : 'end';
  const reason = `jobs wait: ${count} of ${owners} ${ends} to make room`;
  noteDecision(endpoint, ctx.now, { kind: 'MAKE_ROOM', worker: '', node: node.config.id, reason });
  ctx.emit({ kind: 'log', level: 'info', message: 'workers make room', facts: { endpoint: want.endpoint, node: node.config.id, reason } });
  drainYielding(ctx, endpoint);
}

/** Drains the workers of the endpoint's claims that have become idle. */
function drainYielding(ctx: StepContext, endpoint: EndpointRecord): void {
  const { state, now } = ctx;
  for (const claim of endpoint.claims) {
    const staying = claim.workers.flatMap((id) => state.workers.get(id) ?? []).filter(({ drain }) => !drain);
    for (const worker of staying) {
      // Settings may have changed since it was claimed.
      if (!mayLeave(state, worker) || aboveMin(state, worker.endpoint, () => true) < 1) {
        releaseClaim(state, endpoint, claim);
        break;
      }
      if (!isIdle(state, worker)) continue;
      const owner = present(state.endpoints.get(worker.endpoint), 'only a worker of a known endpoint makes room', { worker: worker.id });
      // Nothing waits for a worker that is to be replaced: it was idle.
      owner.replace = null;
      const isOver = loadOf(state, owner, now).waiting > 0;
      const forWhom = `jobs of ${nameFor(state, owner, endpoint.config.id)}`;
      drainWorker(state, now, worker, `${isOver ? 'its turn is over' : 'idle'}: makes room for ${forWhom}`);
    }
  }
}

/** Returns an endpoint as another one may name it: by name within an account, and not beyond. */
function nameFor(state: State, reader: EndpointRecord, id: string): string {
  const config = state.endpoints.get(id)?.config;
  return config?.account === reader.config.account ? `endpoint ${config.name}` : 'another account';
}

/** Whether nothing of a claim is to be expected any more: its room was there, or its workers do not go. */
function isVoid(state: State, now: Now, { node, workers }: Claim): boolean {
  const present = workers.flatMap((id) => state.workers.get(id) ?? []);
  if (present.length === 0 || state.nodes.get(node)?.session == null) return true;
  return present.some((worker) => worker.drain && !isLeaving(state, worker, now));
}

/** Whether all workers of a claim are on their way. */
function isFirm(state: State, { workers }: Claim): boolean {
  return workers.every((id) => state.workers.get(id)?.drain !== false);
}
