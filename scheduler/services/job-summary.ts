/** How many jobs of an endpoint a filter admits by state, and which errors they have. */
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { SummarizeJobsRequest, SummarizeJobsResponse } from '../../proto/gen/capstan/v1/control.ts';
import { publicState } from '../core/jobs/views.ts';
import type { Engine } from '../engine/engine.ts';
import { PIECE_ROWS, SEARCH_MS } from '../engine/search-turns.ts';
import type { StoredState } from '../core/ports/store.ts';
import { ErrorGroups } from './error-groups.ts';
import { admitted, checkedFilter, type JobFilter } from './job-filter.ts';

/** Jobs of one stored state that are examined, the newest ones. */
const MAX_EXAMINED = 5_000;
const MAX_GROUPS = 20;
/** In the order in which they are examined: failures first, for whom people look. */
const STORED: readonly StoredState[] = ['FAILED', 'TIMED_OUT', 'LEASED', 'IN_QUEUE', 'CANCELLED', 'COMPLETED'];
const STATES = [JobState.IN_QUEUE, JobState.IN_PROGRESS, JobState.COMPLETED, JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED];

interface Counts {
  readonly counts: Map<JobState, number>;
  readonly partial: Set<JobState>;
  readonly errors: ErrorGroups;
}

/** @throws CapstanError INVALID_ARGUMENT */
export async function summarize(engine: Engine, account: string, request: SummarizeJobsRequest): Promise<SummarizeJobsResponse> {
  const filter = checkedFilter(request.filter ?? { states: [], sinceMs: 0n, untilMs: 0n, text: '' });
  const found: Counts = { counts: new Map(), partial: new Set(), errors: new ErrorGroups() };
  const until = performance.now() + SEARCH_MS;
  for (const state of STORED) {
    const isWhole = await countOf({ engine, account, endpoint: request.endpointId, filter, until }, state, found);
    if (!isWhole) for (const each of publicStatesOf(state)) found.partial.add(each);
  }
  return {
    states: STATES.map((state) => ({ state, count: BigInt(found.counts.get(state) ?? 0), incomplete: found.partial.has(state) })),
    errors: found.errors.largest(MAX_GROUPS).map(({ text, message, isCut, count }) => ({ text, message, isCut, count: BigInt(count) })),
  };
}

interface Scan {
  readonly engine: Engine;
  readonly account: string;
  readonly endpoint: string;
  readonly filter: JobFilter;
  /** Monotonic time at which it ends, ms. */
  readonly until: number;
}

/** Counts the jobs of a stored state, newest first. Returns whether all were examined. */
async function countOf({ engine, account, endpoint, filter, until }: Scan, state: StoredState, found: Counts): Promise<boolean> {
  let before = engine.state.nextQueuePosition;
  for (let examined = 0; examined < MAX_EXAMINED && performance.now() < until;) {
    const from = before;
    const rows = await engine.searches.take(account, async () => {
      const read = await engine.search('newest', endpoint, state, from, PIECE_ROWS);
      const own = await admitted(engine, read, filter);
      return read.map((row) => ({ row, isAdmitted: own.has(row) }));
    });
    for (const { row, isAdmitted } of rows) {
      // In the order of positions the submissions and retries of all rows behind are earlier still.
      if (row.submittedAt < filter.since) return true;
      before = row.queuePosition;
      examined += 1;
      if (!isAdmitted) continue;
      const shown = publicState(row);
      found.counts.set(shown, (found.counts.get(shown) ?? 0) + 1);
      if (row.error !== null && (state === 'FAILED' || state === 'TIMED_OUT')) found.errors.add(row.error);
    }
    if (rows.length < PIECE_ROWS) return true;
  }
  return false;
}

/** Leased jobs that have not started are queued ones to their callers. */
function publicStatesOf(state: StoredState): readonly JobState[] {
  return state === 'LEASED' ? [JobState.IN_PROGRESS, JobState.IN_QUEUE] : [JobState[state]];
}
