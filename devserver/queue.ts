/**
 * The queue of the development server: the scheduler's core, with a store in memory, and the agent's core as its node.
 * Jobs run in the workers that the project keeps, on its newest code.
 */
import type { LocalWorker } from '../agent/local-workers.ts';
import { CapstanError } from '../lib/errors.ts';
import { fromFailure } from '../lib/grpc-errors.ts';
import { INTERNAL_ERROR } from '../lib/http-messages.ts';
import { endpointNotFound } from '../lib/job-errors.ts';
import { messageOf } from '../lib/to-error.ts';
import type { EndpointHealth, JobReply } from '../proto/gen/capstan/v1/jobs.ts';
import type { ChannelRequest, Done, JobQueue, JobResult } from '../gateway/assembly/queue-api.ts';
import { DevBodies } from './bodies.ts';

/** A queue endpoint as it is declared now. */
export interface QueueEndpoint {
  readonly name: string;
  readonly maxConcurrency: number;
  /** 0: the service's default. */
  readonly executionTimeoutMs: number;
  /** Its file cannot be read now: its jobs wait. */
  readonly isBroken: boolean;
}

export interface DevQueueOptions {
  /** Returns the worker with the newest code of an endpoint. @throws CapstanError when there is none. */
  readonly workerOf: (endpoint: string) => LocalWorker;
  /** Receives a progress update of a job, JSON text. */
  readonly onProgress: (endpoint: string, text: string) => void;
  /** A job has failed; `error` says how. */
  readonly onFailed: (endpoint: string, job: string, error: string) => void;
  /** A job with a webhook has ended. */
  readonly onWebhook: (job: string) => void;
  /** True while a debugger holds the endpoint: its time limits do not count. */
  readonly isDebugged: (endpoint: string) => boolean;
  /** Most bytes of the jobs' inputs, outputs and chunks together. */
  readonly bodyBytes: number;
  /** The queue itself failed. */
  readonly onFault: (message: string) => void;
}

export interface DevQueue extends JobQueue {
  /** There is newer code: jobs run on it from now on. Endpoints that are left out are deleted. */
  deploy(endpoints: readonly QueueEndpoint[]): void;
  /** No job starts or ends any more. */
  close(): Promise<void>;
}

export async function openDevQueue(options: DevQueueOptions): Promise<DevQueue> {
  const [{ LocalScheduler }, { AttachedRuntime, LocalAgent }, { StreamCursors }] = await Promise.all([
    import('../scheduler/assembly/local-scheduler.ts'),
    import('../agent/local-agent.ts'),
    import('../gateway/assembly/queue-api.ts'),
  ]);
  const bodies = new DevBodies();
  const cursors = new StreamCursors();
  const fault = (facts: object, message: string): void => options.onFault('err' in facts ? `${message}: ${messageOf(facts.err)}` : message);
  const scheduler = await LocalScheduler.open({
    send: (event) => agent.receive(event),
    onEnded({ id, endpoint, state, error, hasWebhook }) {
      if (state === 'FAILED' || state === 'TIMED_OUT') options.onFailed(endpoint, id, `${state}${error === null ? '' : `: ${error}`}`);
      if (hasWebhook) options.onWebhook(id);
    },
    dropBodies: (ids) => bodies.drop(ids),
    bodyBytes: options.bodyBytes,
    // What becomes of jobs and workers is shown by other means.
    log: { info: () => undefined, warn: () => undefined, error: fault },
  });
  const runtime = new AttachedRuntime({
    name: 'process',
    workerOf: (endpointId) => options.workerOf(scheduler.nameOf(endpointId)),
    onProgress: (endpointId, text) => options.onProgress(scheduler.nameOf(endpointId), text),
  });
  const agent = new LocalAgent({
    runtime,
    bodies,
    send: (events) => scheduler.receive(events),
    isHeld: (endpointId) => options.isDebugged(scheduler.nameOf(endpointId)),
    log: { warn: () => undefined },
  });
  await scheduler.connect(agent.hello());

  const mustFind = (name: string): string => {
    const id = scheduler.idOf(name);
    if (id === undefined) throw endpointNotFound(name);
    return id;
  };
  /** Jobs of open reads of streams, by request. */
  const reading = new Map<number, string>();
  let next = 1;

  function request({ endpointId, operation, held }: ChannelRequest, done: Done): number {
    const requestId = next++;
    held?.release();
    const id = scheduler.idOf(endpointId);
    if (id === undefined) {
      setImmediate(done, endpointNotFound(endpointId), null);
      return requestId;
    }
    if (operation.$case === 'stream') {
      cursors.place(operation.value);
      reading.set(requestId, operation.value.jobId);
    }
    scheduler.request({ requestId, endpointId: id, operation, limitedAs: 'none', resent: false }, ({ result }) => {
      reading.delete(requestId);
      if (operation.$case === 'stream') cursors.noteResult(operation.value, result);
      const { error, value } = resultOf(result);
      done(error, value);
    });
    return requestId;
  }

  return {
    channel: {
      request,
      abandon(ticket) {
        const job = reading.get(ticket);
        if (job !== undefined) cursors.giveUp(job);
        reading.delete(ticket);
        const operation = { $case: 'abandon', value: ticket } as const;
        scheduler.request({ requestId: ticket, endpointId: '', operation, limitedAs: 'none', resent: false }, () => undefined);
      },
      lost(operation, part) {
        if (operation.$case === 'stream') cursors.lost(operation.value.jobId, part, operation.value.after);
      },
    },
    bodies,
    jobCalls: {
      cancel: async ({ endpointId, jobId }) => scheduler.calls.cancel(mustFind(endpointId), jobId, false),
      retry: async ({ endpointId, jobId }) => scheduler.calls.retry(mustFind(endpointId), jobId),
      purgeQueue: async (endpoint) => scheduler.calls.purgeQueue(mustFind(endpoint), false),
      health: async (endpoint) => Promise.resolve(withWorker(scheduler.calls.health(mustFind(endpoint)), options.workerOf(endpoint))),
      list: async (asked) => scheduler.calls.list({ ...asked, endpointId: mustFind(asked.endpointId) }),
    },
    deploy(endpoints) {
      runtime.supersede();
      scheduler.deploy(
        endpoints.map(({ name, maxConcurrency, executionTimeoutMs, isBroken }) => ({
          name,
          maxConcurrency,
          executionTimeoutMs,
          isPaused: isBroken,
        })),
      );
    },
    async close() {
      agent.close();
      await scheduler.close();
    },
  };
}

function resultOf(result: JobReply['result']): { readonly error: CapstanError | null; readonly value: JobResult | null } {
  switch (result?.$case) {
    case 'job':
      return { error: null, value: { job: result.value } };
    case 'stream':
      return { error: null, value: { stream: result.value } };
    case 'failure':
      return { error: fromFailure(result.value), value: null };
    case undefined:
      return { error: new CapstanError('INTERNAL', INTERNAL_ERROR), value: null };
  }
}

/** Of the one worker of an endpoint, the project knows more than the queue: its file may still load, or not load at all. */
function withWorker(health: EndpointHealth, { isLoaded, isOver }: LocalWorker): EndpointHealth {
  const isRunning = isLoaded && health.workersRunning > 0;
  return {
    ...health,
    workersIdle: isLoaded && !isRunning ? 1 : 0,
    workersInitializing: isLoaded || isOver ? 0 : 1,
    workersReady: isLoaded ? 1 : 0,
    workersRunning: isRunning ? 1 : 0,
    workersThrottled: 0,
    workersUnhealthy: isOver ? 1 : 0,
  };
}
