/**
 * The invariants (docs/invariants.md), checked from outside the core: from the operations the
 * store took, from what agents were sent, and by recounting.
 */
import { toPayloadMessage } from '../../lib/payload.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { NodeRecord, NodeUsage } from '../../scheduler/core/state/fleet.ts';
import { recount } from '../../scheduler/core/fleet/placement/node-usage.ts';
import type { Op, Outcome, StoredState } from '../../scheduler/core/ports/store.ts';
import type { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import type { SimBlobs } from './blobs.ts';
import { checkApart, Neighbours } from './neighbours.ts';
import type { Receivers } from './webhooks.ts';

interface JobModel {
  readonly id: string;
  readonly endpoint: string;
  readonly priority: 0 | 1;
  readonly webhook: string | null;
  state: StoredState;
  token: number;
  deleteAt: number;
  /** Ends recorded since submission or the last retry. */
  ends: number;
  /** How often it left the queue. */
  left: number;
}

/** What the world knows of every job, built from committed operations alone. */
export class Ledger {
  readonly jobs = new Map<number, JobModel>();
  readonly byId = new Map<string, JobModel>();
  readonly deleted = new Set<string>();
  readonly neighbours = new Neighbours();
  readonly #started = new Map<string, number>();
  readonly #receivers: Receivers;
  readonly #blobs: SimBlobs;
  /** Idempotency keys, which outlive their jobs and this world, with the job of each. */
  readonly #keys = new Map<string, string>();

  constructor(receivers: Receivers, blobs: SimBlobs) {
    this.#receivers = receivers;
    this.#blobs = blobs;
  }

  /** Takes a committed operation; throws when it breaks an invariant. */
  observe(op: Op, outcome: Outcome, wall: number): void {
    if (outcome.kind !== 'ok') return;
    switch (op.kind) {
      case 'submit': {
        const { seq, id, endpoint, priority, webhook, state, token, deleteAt } = op.job;
        if (this.byId.has(id) && !this.deleted.has(id)) fail(`job ${id} was inserted twice`);
        const model: JobModel = { id, endpoint, priority, webhook, state, token, deleteAt, ends: 0, left: 0 };
        this.jobs.set(seq, model);
        this.byId.set(id, model);
        this.deleted.delete(id);
        if (op.idempotency === null) return;
        const { key } = op.idempotency;
        if (this.#keys.has(key)) fail(`jobs ${this.#keys.get(key) ?? ''} and ${id} were both made under the key ${key}`);
        this.#keys.set(key, id);
        return;
      }
      case 'lease': {
        const job = this.#job(op.seq);
        if (job.state !== 'IN_QUEUE') fail(`job ${job.id} was leased while ${job.state}`);
        if (op.token !== job.token + 1) fail(`job ${job.id}: token went from ${job.token} to ${op.token}`);
        job.state = 'LEASED';
        job.left++;
        job.token = op.token;
        return;
      }
      case 'requeue': {
        const job = this.#job(op.seq);
        if (job.state !== 'LEASED') fail(`job ${job.id} was requeued while ${job.state}`);
        job.state = 'IN_QUEUE';
        this.neighbours.requeued(job.id, op);
        return;
      }
      case 'finish': {
        const job = this.#job(op.seq);
        if (job.state !== op.from) fail(`job ${job.id} ended while ${job.state}, not ${op.from}`);
        this.neighbours.finished(job.id, op);
        job.state = op.state;
        job.left++;
        job.deleteAt = op.deleteAt;
        if (op.output !== null && this.#blobs.textOf(toPayloadMessage(op.output)) !== `${job.id} ${job.token}`)
          fail(`job ${job.id} ended with the result of another attempt than ${job.token}`);
        if (++job.ends > 1) fail(`job ${job.id} ended ${job.ends} times`);
        this.#receivers.ended(op, job.webhook, job.id);
        return;
      }
      case 'retry': {
        const job = this.#job(op.seq);
        if (job.state !== 'FAILED' && job.state !== 'TIMED_OUT') fail(`job ${job.id} was retried while ${job.state}`);
        job.state = 'IN_QUEUE';
        job.token++;
        job.ends = 0;
        job.deleteAt = op.deleteAt;
        return;
      }
      case 'delivery':
        return this.#receivers.recorded(op, wall);
      case 'delete': {
        const job = this.#job(op.seq);
        if (wall < job.deleteAt) fail(`job ${job.id} was deleted ${job.deleteAt - wall} ms early`);
        job.left++;
        this.jobs.delete(op.seq);
        this.deleted.add(job.id);
        this.#receivers.forgotten(job.id);
        // A submission sent again after its job's ttl begins another life, with tokens from 1.
        for (let token = 1; token <= job.token; token++) this.#started.delete(`${job.id} ${token}`);
        break;
      }
      case 'started':
      case 'drain':
      case 'put':
      case 'reencrypt':
        break;
    }
  }

  /** The endpoint's queued jobs, and how often each has left the queue before. */
  waiting(endpoint: string): Map<JobModel, number> {
    const found = [...this.jobs.values()].filter((job) => job.endpoint === endpoint && job.state === 'IN_QUEUE');
    return new Map(found.map((job) => [job, job.left]));
  }

  /** A handler was entered: once per lease. */
  entered(job: string, token: number): void {
    const times = (this.#started.get(`${job} ${token}`) ?? 0) + 1;
    this.#started.set(`${job} ${token}`, times);
    if (times > 1) fail(`attempt ${job} ${token} was entered twice`);
  }

  #job(seq: number): JobModel {
    const job = this.jobs.get(seq);
    if (job === undefined) throw new Error(`operation on job number ${seq}, which is not there`);
    return job;
  }
}

/** Holds at every moment: slots, windows, waiters, what is given out on nodes. */
export function checkImage(state: State): void {
  for (const node of state.nodes.values()) checkUsage(state, node);
  for (const worker of state.workers.values()) {
    if (worker.attempts.size > worker.maxConcurrency)
      fail(`worker ${worker.id} holds ${worker.attempts.size} jobs of ${worker.maxConcurrency}`);
    checkApart(worker.id, worker.attempts.values());
  }
  for (const { lanes } of state.endpoints.values()) {
    for (const lane of lanes) {
      let last = -1;
      for (let i = lane.head; i < lane.window.length; i++) {
        const job = lane.window[i];
        if (job?.phase !== 'QUEUED') continue;
        if (job.queuePosition <= last) fail(`window out of order at ${job.id}`);
        last = job.queuePosition;
        if (state.jobs.get(job.id) !== job) fail(`job ${job.id} is in a window, but not in the image`);
      }
      if (lane.count < 0) fail('a lane counts fewer than no jobs');
    }
  }
  for (const job of state.jobs.values())
    if ((job.lease === null) !== (job.phase === 'QUEUED'))
      fail(`job ${job.id} is ${job.phase} with lease ${job.lease === null ? 'none' : 'held'}`);
  for (const [id, waiters] of state.waiters) {
    for (const waiter of waiters) if (waiter.done || waiter.job !== id) fail(`waiter of ${id} is done but kept`);
  }
}

/** The counters of a node against its workers; nothing is given out twice. */
function checkUsage(state: State, node: NodeRecord): void {
  if (isCounted(state, node)) return;
  const counted = recount(state, node);
  const given = [...node.workers].flatMap((id) => state.workers.get(id)?.devices ?? []);
  if (new Set(given).size < given.length) fail(`node ${node.config.id} gave a device to two workers: ${given.join()}`);
  const shown = (usage: NodeUsage): string =>
    JSON.stringify([usage.cpuMillis, usage.memoryBytes, [...usage.devices], [...usage.endpoints]]);
  fail(`node ${node.config.id} counts ${shown(node.usage)}, its workers have ${shown(counted)}`);
}

/** Whether the counters are those of the workers: after each step, so nothing is built for it. */
function isCounted(state: State, { usage, workers }: NodeRecord): boolean {
  let cpuMillis = 0;
  let memoryBytes = 0;
  let devices = 0;
  for (const id of workers) {
    const worker = state.workers.get(id);
    if (worker === undefined) continue;
    cpuMillis += worker.cpuMillis;
    memoryBytes += worker.memoryBytes;
    devices += worker.devices.length;
    for (const device of worker.devices) if (usage.devices.get(device) !== id) return false;
    if (!usage.endpoints.has(worker.endpoint)) return false;
  }
  for (const [endpoint, count] of usage.endpoints) {
    let found = 0;
    for (const id of workers) if (state.workers.get(id)?.endpoint === endpoint) found++;
    if (found !== count) return false;
  }
  return usage.cpuMillis === cpuMillis && usage.memoryBytes === memoryBytes && usage.devices.size === devices;
}

/** Holds whenever nothing is gathered: the counters against a recount. */
export function checkCounts(state: State, store: SqliteEngine): void {
  const found = new Map<string, number>();
  for (const { endpoint, state, priority, count } of store.read('counts')) found.set(`${endpoint} ${state} ${priority}`, count);
  for (const [id, { lanes, counts }] of state.endpoints) {
    for (const priority of [0, 1] as const) {
      const queued = found.get(`${id} IN_QUEUE ${priority}`) ?? 0;
      if (lanes[priority].count !== queued)
        fail(`endpoint ${id} priority ${priority}: counted ${lanes[priority].count} queued jobs, there are ${queued}`);
    }
    const leased = (found.get(`${id} LEASED 0`) ?? 0) + (found.get(`${id} LEASED 1`) ?? 0);
    if (counts.inProgress !== leased) fail(`endpoint ${id}: counted ${counts.inProgress} leased jobs, there are ${leased}`);
  }
}

/** Holds when the world is quiet: the bytes of bodies in the state are those that the store's rows name, and none is pending. */
export function checkBodies(state: State, store: SqliteEngine): void {
  const stored = new Map(store.read('bodyUsage').map(({ account, bytes }) => [account, bytes]));
  for (const account of new Set([...stored.keys(), ...state.bodyUse.keys()])) {
    const use = state.bodyUse.get(account) ?? { stored: 0, pending: 0 };
    const bytes = stored.get(account) ?? 0;
    if (use.stored !== bytes || use.pending !== 0)
      fail(`account ${account}: counted ${use.stored} bytes of bodies and ${use.pending} pending, the store has ${bytes}`);
  }
}

/** Everything a lane of the endpoint claims to be in its window is really there. */
export function checkWindows(state: State, store: SqliteEngine, id: string): void {
  const endpoint = state.endpoints.get(id);
  if (endpoint !== undefined) {
    for (const priority of [0, 1] as const) {
      const lane = endpoint.lanes[priority];
      if (lane.refill !== null) continue;
      const shown = lane.window
        .slice(lane.head)
        .filter((job) => job.phase === 'QUEUED')
        .map((job) => job.id);
      // Compared with the store elsewhere: there is no job to read.
      if (shown.length === 0 && lane.count === 0) continue;
      const stored = store
        .read('head', { endpoint: id, priority, after: -1, limit: 100_000, inputLimit: 0 })
        .filter((row) => row.job.queuePosition <= lane.covered)
        .map((row) => row.job.id);
      if (shown.join() !== stored.join())
        fail(
          `endpoint ${id} priority ${priority}: the window shows [${shown.slice(0, 5).join()}…] (${shown.length}), the store [${stored.slice(0, 5).join()}…] (${stored.length})`,
        );
    }
  }
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
