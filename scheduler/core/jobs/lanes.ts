/**
 * A lane is one priority of one endpoint's queue. Its head window holds jobs in memory; jobs beyond `covered` are only
 * in the store and are read when the window runs low.
 *
 * Invariant: the window holds every queued job whose position is at or below `covered`, in order. While a refill is
 * being read, requeued jobs enter the window at once, and jobs added or removed in the meantime are recorded, because
 * the rows of the read may miss them or still contain them.
 */
import { invariant, present } from '../../../lib/invariant.ts';
import type { JobRecord, Lane } from '../state/jobs.ts';

/** Adds a job at the tail. Returns false if the job is beyond the window: then only the store holds it. */
export function enqueue(lane: Lane, job: JobRecord, windowSize: number): boolean {
  lane.count++;
  if (lane.covered === Number.POSITIVE_INFINITY) {
    if (lane.window.length - lane.head < windowSize) {
      lane.window.push(job);
      return true;
    }
    lane.covered = present(lane.window.at(-1), 'a full window has a last job', { job: job.id }).queuePosition;
    invariant(lane.covered < job.queuePosition, 'a job enters its queue at the tail', { job: job.id });
  }
  if (lane.refill !== null) lane.refill.added = true;
  return false;
}

/** Puts a job back at its own position. Returns false if that is beyond the window. */
export function putBack(lane: Lane, job: JobRecord): boolean {
  lane.count++;
  if (job.queuePosition > lane.covered && lane.refill === null) return false;
  insert(lane, job);
  return true;
}

/** Returns the first queued job that is not among `passed`, or null if the window has none. */
export function firstBut(lane: Lane, passed: ReadonlySet<JobRecord>): JobRecord | null {
  const head = first(lane);
  if (head === null || !passed.has(head)) return head;
  for (let at = lane.head + 1; at < lane.window.length; at++) {
    const job = present(lane.window[at], 'a window has no gaps');
    if (job.phase === 'QUEUED' && !passed.has(job)) return job;
  }
  return null;
}

/** Returns the first queued job, or null if the window has none. */
export function first(lane: Lane): JobRecord | null {
  while (lane.head < lane.window.length) {
    const job = present(lane.window[lane.head], 'a window has no gaps');
    if (job.phase === 'QUEUED') return job;
    lane.head++;
  }
  if (lane.head > 0) {
    lane.window = [];
    lane.head = 0;
  }
  return null;
}

/** Removes a job of the window, usually the one that {@link first} returned. */
export function take(lane: Lane, job: JobRecord): void {
  invariant(lane.count > 0, 'a job that is taken was counted in its lane', { job: job.id });
  lane.count--;
  const at = lane.window[lane.head] === job ? lane.head : lane.window.indexOf(job, lane.head);
  invariant(at >= lane.head, 'a job that is taken is in the window', { job: job.id });
  // One that returned to its place during a refill may be beyond `covered`, run, and end before the rows arrive.
  lane.refill?.removed.add(job.queuePosition);
  if (at > lane.head) {
    lane.window.splice(at, 1);
    return;
  }
  lane.head++;
  if (lane.head > 512 && lane.head * 2 > lane.window.length) {
    lane.window = lane.window.slice(lane.head);
    lane.head = 0;
  }
}

/** Records that a queued job left the queue other than by {@link take}. The caller changes its phase. */
export function leave(lane: Lane, { id, queuePosition }: JobRecord): void {
  invariant(lane.count > 0, 'a job that leaves its lane was counted in it', { job: id });
  lane.count--;
  lane.refill?.removed.add(queuePosition);
}

/** Whether the window should be refilled from the store. The caller starts the read. */
export function wantsRefill(lane: Lane, windowSize: number): boolean {
  return lane.covered !== Number.POSITIVE_INFINITY && lane.refill === null && lane.window.length - lane.head < windowSize / 2;
}

/**
 * Returns the position after which a refill starts, and its limit of jobs: a quarter of the window, because a long read
 * delays commits.
 */
export function startRefill(lane: Lane, windowSize: number): { readonly after: number; readonly limit: number } {
  invariant(lane.refill === null, 'a lane has one refill at a time', { covered: lane.covered });
  lane.refill = { added: false, removed: new Set() };
  return { after: lane.covered, limit: Math.max(1, Math.min(windowSize - (lane.window.length - lane.head), Math.ceil(windowSize / 4))) };
}

/**
 * Adds the jobs of a refill. `known` tells which jobs the state already holds. Returns the jobs that left the window
 * because the refill did not reach their position.
 */
export function finishRefill(
  lane: Lane,
  rows: readonly JobRecord[],
  limit: number,
  known: (id: string) => boolean,
): { readonly added: JobRecord[]; readonly dropped: JobRecord[] } {
  const refill = present(lane.refill, 'rows of a head arrive for the refill that requested them', { covered: lane.covered });
  lane.refill = null;
  const last = rows.at(-1);
  if (rows.length < limit && !refill.added) lane.covered = Number.POSITIVE_INFINITY;
  else if (last !== undefined) lane.covered = last.queuePosition;
  const added = rows.filter((job) => !refill.removed.has(job.queuePosition) && !known(job.id));
  for (const job of added) insert(lane, job);
  const dropped: JobRecord[] = [];
  for (let last = lane.window.at(-1); last !== undefined && last.queuePosition > lane.covered; last = lane.window.at(-1)) {
    if (lane.window.length <= lane.head) break;
    lane.window.pop();
    if (last.phase === 'QUEUED') dropped.push(last);
  }
  return { added, dropped };
}

function insert(lane: Lane, job: JobRecord): void {
  const window = lane.window;
  let low = lane.head;
  let high = window.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (present(window[middle], 'a window has no gaps').queuePosition < job.queuePosition) low = middle + 1;
    else high = middle;
  }
  if (low === window.length) window.push(job);
  else window.splice(low, 0, job);
}
