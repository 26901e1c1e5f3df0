/** HTTP requests to this agent's workers: which workers accept them, and how many each has. */
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import { deviceProblemOf } from '../core/devices.ts';
import type { State, Worker } from '../core/state.ts';
import type { HttpCall, HttpEvents, HttpRequest, RunningWorker } from '../runtimes/runtime.ts';

export function servingWorkers(state: State): ServingWorker[] {
  const serving: ServingWorker[] = [];
  for (const worker of state.workers.values()) {
    if (!takesRequests(worker) || deviceProblemOf(state, worker) !== undefined) continue;
    const { releaseId, release } = worker;
    const functions = release.functions.map(({ name }) => name);
    serving.push({ workerId: worker.id, endpointId: release.endpointId, releaseId, slots: slotsOf(worker), functions });
  }
  return serving;
}

/** Where a request runs. */
export interface ServeTarget {
  readonly worker: Worker | undefined;
  readonly running: RunningWorker | undefined;
  /** Receives the worker's numbers of requests and of WebSockets among them, immediately and after each change, and whether one lost its worker. */
  readonly counted: (worker: Worker, count: number, webSockets: number, isLost?: boolean) => void;
}

/** Hands a request to a worker; returns null when the worker does not accept it. */
export function serveOn({ worker, running, counted }: ServeTarget, request: HttpRequest, events: HttpEvents): HttpCall | null {
  if (worker === undefined || running?.serve === undefined || !takesRequests(worker)) return null;
  if (worker.requests >= slotsOf(worker)) return null;
  counted(worker, worker.requests + 1, worker.webSockets);
  let open = true;
  let webSockets = 0;
  const end = (isLost = false): void => {
    if (open) counted(worker, worker.requests - 1, worker.webSockets - webSockets, isLost);
    open = false;
  };
  return running.serve(request, {
    head(status, headers, body, ended) {
      if (ended) end();
      else if (status === 101) {
        webSockets = 1;
        counted(worker, worker.requests, worker.webSockets + 1);
      }
      events.head(status, headers, body, ended);
    },
    body(bytes, ended) {
      if (ended) end();
      events.body(bytes, ended);
    },
    credit: (bytes) => events.credit(bytes),
    failed(...failure) {
      end(failure[0] === 'WORKER_LOST');
      events.failed(...failure);
    },
  });
}

function takesRequests(worker: Worker): boolean {
  return worker.phase === 'ready' && worker.reachable && !worker.draining && worker.release.kind === EndpointKind.LOAD_BALANCED;
}

function slotsOf(worker: Worker): number {
  return Math.max(1, worker.release.maxConcurrency);
}
