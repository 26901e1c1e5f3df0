/** Jobs as people look at them: pages that filters narrow, and one job with its input. */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { tagsOf } from '../../lib/job-tags.ts';
import { toPayloadMessage } from '../../lib/payload.ts';
import { traceParent } from '../../lib/trace-context.ts';
import { endpointNotFound, jobNotFound } from '../../lib/job-errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { ControlServiceServer, JobDetail, SearchJobsRequest, SearchJobsResponse } from '../../proto/gen/capstan/v1/control.ts';
import { damagedInput } from '../core/jobs/damage.ts';
import { view } from '../core/jobs/job-lookup.ts';
import { storedState, viewOfRow } from '../core/jobs/views.ts';
import { isDamaged } from '../core/ports/stored-payload.ts';
import type { JobRow, WholeJob } from '../core/ports/store.ts';
import { PIECE_ROWS, SEARCH_MS } from '../engine/search-turns.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import { admitted, checkedFilter } from './job-filter.ts';
import { summarize } from './job-summary.ts';
import { timelineOf } from './job-timeline.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
/** Rows that one search looks at; the caller continues at the cursor. */
const MAX_EXAMINED = 2_000;
const CURSOR = /^[1-9]\d{0,15}$/;

export function jobSearchHandlers({
  engine,
  auth,
  log,
  clock,
  queueReasons,
}: ControlDeps): Pick<ControlServiceServer, 'searchJobs' | 'summarizeJobs' | 'getJob'> {
  /** Refuses endpoints that the caller may not see. */
  function check(metadata: Metadata, endpointId: string, isList: boolean): void {
    const { account, sees, listsJobs } = auth.reader(metadata);
    const config = engine.state.endpoints.get(endpointId)?.config;
    if (config === undefined || config.account !== account || !sees(config)) throw endpointNotFound(endpointId);
    if (isList && !listsJobs(config))
      throw new CapstanError('PERMISSION_DENIED', "a worker's token lists the jobs of its own endpoint only; read another job by its id");
  }

  /** Finds the endpoint of a job by the job's id alone. A job that the caller may not see does not exist. */
  async function seenEndpointOf(metadata: Metadata, jobId: string): Promise<string> {
    const { account, sees } = auth.reader(metadata);
    const id = await engine.read('endpointOfJob', jobId);
    const config = id === null ? undefined : engine.state.endpoints.get(id)?.config;
    if (config === undefined || config.account !== account || !sees(config)) throw jobNotFound(jobId);
    return config.id;
  }

  function detail(whole: WholeJob): JobDetail {
    const { job } = whole;
    const live = engine.state.jobs.get(job.id);
    return {
      job: live === undefined ? viewOfRow(whole, '') : view(engine.state, clock.now(), live),
      kind: job.kind === 'RUNSYNC' ? JobKind.RUNSYNC : JobKind.RUN,
      lowPriority: job.priority === 1,
      startedAtMs: milliseconds(job.startedAt),
      endedAtMs: milliseconds(job.endedAt),
      deleteAtMs: milliseconds(job.deleteAt),
      attempts: live?.attempts ?? job.attempts,
      executionTimeoutMs: milliseconds(job.executionTimeoutMs),
      ttlMs: milliseconds(job.ttlMs),
      nodeId: job.lease?.node ?? '',
      ...(job.trace === null ? {} : { traceId: traceParent(job.trace).traceId }),
      tags: tagsOf(job.tags ?? ''),
      ...(job.submittedBy === null ? {} : { submittedBy: job.submittedBy }),
      chunks: 0,
      pastAttempts: [],
      queueReasons: [],
    };
  }

  async function search(account: string, request: SearchJobsRequest): Promise<SearchJobsResponse> {
    const { limit, state, filter } = checked(request);
    const jobs: JobDetail[] = [];
    let before = request.cursor === '' ? Number.MAX_SAFE_INTEGER : Number(request.cursor);
    const until = performance.now() + SEARCH_MS;
    for (let examined = 0; examined < MAX_EXAMINED && performance.now() < until;) {
      const from = before;
      const rows = await engine.searches.take(account, async () => {
        const read = await engine.search('newest', request.endpointId, state, from, PIECE_ROWS);
        const found = await admitted(engine, read, filter);
        return read.map((row) => ({ row, isAdmitted: found.has(row) }));
      });
      for (const { row, isAdmitted } of rows) {
        // In the order of positions the submissions and retries of all rows behind are earlier still.
        if (row.submittedAt < filter.since) return { jobs, cursor: '', incomplete: false };
        before = row.queuePosition;
        examined += 1;
        if (!isAdmitted) continue;
        jobs.push(detail({ job: row, output: null, chunks: [], firstChunk: 0 }));
        if (jobs.length === limit) return { jobs, cursor: String(before), incomplete: false };
      }
      if (rows.length < PIECE_ROWS) return { jobs, cursor: '', incomplete: false };
    }
    return { jobs, cursor: String(before), incomplete: true };
  }

  return {
    searchJobs: unary(log, 'SearchJobs', (request, metadata) => {
      check(metadata, request.endpointId, true);
      return search(auth.reader(metadata).account, request);
    }),
    summarizeJobs: unary(log, 'SummarizeJobs', (request, metadata) => {
      check(metadata, request.endpointId, true);
      return summarize(engine, auth.reader(metadata).account, request);
    }),
    getJob: unary(log, 'GetJob', async (request, metadata) => {
      const { jobId } = request;
      const endpointId = request.endpointId === '' ? await seenEndpointOf(metadata, jobId) : request.endpointId;
      check(metadata, endpointId, false);
      const whole = await engine.read('job', endpointId, jobId);
      if (whole === null) throw jobNotFound(jobId);
      const payload = await engine.read('payload', whole.job.seq);
      const live = engine.state.jobs.get(whole.job.id);
      const chunks = live?.stream?.next ?? whole.firstChunk + whole.chunks.length;
      const timeline = await timelineOf(queueReasons, whole.job, startOf(whole.job, live?.startedAt), clock.now().wall);
      const shown = { ...detail(whole), ...timeline, chunks };
      if (payload === null) return shown;
      if (!isDamaged(payload.input)) return { ...shown, input: toPayloadMessage(payload.input) };
      // The job is shown without it: its state and its timeline are what somebody needs now.
      const { job } = shown;
      return job === undefined || job.error !== undefined
        ? shown
        : { ...shown, job: { ...job, error: damagedInput(jobId, payload.input) } };
    }),
  };
}

/** The start of the present attempt: the store has it of short attempts as their delay only, or not at all while they run. */
function startOf({ startedAt, submittedAt, delayMs }: JobRow, live: number | null = null): number | null {
  return live ?? startedAt ?? (delayMs === null ? null : submittedAt + delayMs);
}

function checked(request: SearchJobsRequest) {
  const { limit, states, cursor } = request;
  if (limit > MAX_LIMIT) throw invalid('limit', `must be at most ${MAX_LIMIT}`);
  if (cursor !== '' && !CURSOR.test(cursor)) throw invalid('cursor', 'must be the cursor of an earlier page');
  const [first] = states;
  // A job that is leased and not started yet is IN_QUEUE to its caller: one state of the store is not enough for it.
  const isOfOne = states.length === 1 && first !== undefined && first !== JobState.IN_QUEUE;
  return {
    limit: limit === 0 ? DEFAULT_LIMIT : limit,
    state: isOfOne ? storedState(first) : null,
    filter: checkedFilter(request),
  };
}

function invalid(field: string, rule: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${rule}`, { field });
}

function milliseconds(value: number | null): bigint {
  return BigInt(Math.trunc(value ?? 0));
}
