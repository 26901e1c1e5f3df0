/** The calls about jobs that are answered once: cancel, retry, purge, list, counts. */
import { CapstanError } from '../../lib/errors.ts';
import { endpointNotFound } from '../../lib/job-errors.ts';
import { jobMessage } from '../../lib/job-message.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointHealth, Job, ListJobsRequest, ListJobsResponse } from '../../proto/gen/capstan/v1/jobs.ts';
import type { CommandResult } from '../core/effects.ts';
import type { CountedCall } from '../core/events.ts';
import { view } from '../core/jobs/job-lookup.ts';
import { storedState, viewOfRow } from '../core/jobs/views.ts';
import { workerCounts } from '../core/scaling/worker-counts.ts';
import type { LimitedOperation } from '../core/state/rate-limits.ts';
import type { State } from '../core/state.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';

export class JobCalls {
  readonly #engine: Engine;
  readonly #clock: Clock;
  #nextTicket = 1;

  constructor(engine: Engine, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  /** `isCounted`: the call counts towards the endpoint's rate limit. */
  cancel(endpointId: string, job: string, isCounted: boolean): Promise<Job> {
    const cancel = async (counted?: CountedCall): Promise<Job> => {
      const count = counted === undefined ? {} : { counted };
      return toJob(endpointId, await this.#engine.command({ kind: 'cancel', endpoint: endpointId, job, ...count }));
    };
    return isCounted ? this.#counted('cancel', cancel) : cancel();
  }

  async retry(endpointId: string, job: string): Promise<Job> {
    return toJob(endpointId, await this.#engine.command({ kind: 'retry', endpoint: endpointId, job }));
  }

  /** Returns the number of jobs that it ended. */
  purgeQueue(endpoint: string, isCounted: boolean): Promise<number> {
    const purge = async (counted?: CountedCall): Promise<number> => {
      const answer = await this.#engine.command({ kind: 'purge', endpoint, ...(counted === undefined ? {} : { counted }) });
      return answer.kind === 'purged' ? answer.removed : 0;
    };
    return isCounted ? this.#counted('purge-queue', purge) : purge();
  }

  /** Counts towards the endpoint's rate limit. */
  listCounted(request: ListJobsRequest): Promise<ListJobsResponse> {
    return this.#counted('requests', async (counted) => {
      await this.#engine.command({ kind: 'count-listing', endpoint: request.endpointId, counted });
      return this.list(request);
    });
  }

  async list(request: ListJobsRequest): Promise<ListJobsResponse> {
    const { state: image } = this.#engine;
    const account = image.endpoints.get(request.endpointId)?.config.account;
    if (account === undefined) throw endpointNotFound(request.endpointId);
    const limit = request.limit === 0 ? 20 : Math.min(100, request.limit);
    const state = storedState(request.state);
    const { jobs, total } = await this.#engine.searches.take(account, () =>
      this.#engine.search('page', request.endpointId, state, request.offset, limit),
    );
    const now = this.#clock.now();
    return {
      total,
      jobs: jobs.map((whole) => {
        const live = this.#engine.state.jobs.get(whole.job.id);
        return live === undefined ? viewOfRow(whole, '') : view(this.#engine.state, now, live);
      }),
    };
  }

  health(endpointId: string): EndpointHealth {
    return health(this.#engine.state, endpointId);
  }

  /** Runs a call that counts towards an endpoint's rate limits while it is open. */
  async #counted<Reply>(operation: LimitedOperation, handler: (counted: CountedCall) => Promise<Reply>): Promise<Reply> {
    const ticket = this.#nextTicket++;
    try {
      return await handler({ operation, ticket });
    } finally {
      this.#engine.handle({ kind: 'call-ended', ticket });
    }
  }
}

/** Returns the counts of an endpoint. */
function health(state: State, id: string): EndpointHealth {
  const endpoint = state.endpoints.get(id);
  if (endpoint === undefined) throw endpointNotFound(id);
  const workers = workerCounts(state, endpoint);
  return {
    jobsCompleted: endpoint.counts.completed,
    jobsFailed: endpoint.counts.failed,
    jobsInProgress: endpoint.counts.inProgress,
    jobsInQueue: endpoint.lanes[0].count + endpoint.lanes[1].count,
    jobsRetried: endpoint.counts.retried,
    workersIdle: workers.idle,
    workersInitializing: workers.initializing,
    workersReady: workers.idle + workers.running,
    workersRunning: workers.running,
    workersThrottled: workers.throttled,
    workersUnhealthy: workers.unhealthy,
  };
}

function toJob(endpointId: string, answer: CommandResult): Job {
  if (answer.kind !== 'job') throw new CapstanError('INTERNAL', 'unexpected reply type');
  const { id, delayMs, executionMs } = answer;
  return jobMessage({ id, endpointId, state: JobState[answer.state], delayMs, executionMs });
}
