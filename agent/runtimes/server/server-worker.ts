/**
 * A worker with its own server: it receives PORT and PORT_HEALTH, GET /ping checks it (200 ready, 204 initialising),
 * and requests are forwarded to it.
 */
import { Agent, get } from 'node:http';

import { messageOf } from '../../../lib/to-error.ts';
import type { LaunchedProcess } from '../foreign/launcher.ts';
import { workerEnv } from '../hosted/worker-env.ts';
import type { HttpCall, HttpEvents, HttpRequest, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { ProxiedRequest } from './proxied-request.ts';
import type { Reach, ServerSite } from './site.ts';

/** Interval of health checks before it is ready, ms; and after. */
const ASK_MS = 200;
const ASK_AGAIN_MS = 5_000;
/** Time-out of a health check, ms. */
const ANSWER_MS = 5_000;
/** Consecutive failed checks until it counts as dead. */
const MAX_FAILED = 3;
/** Time for a worker that refuses connections to listen again, ms. */
const DOUBT_MS = MAX_FAILED * ASK_AGAIN_MS;
/** Time for a worker without requests to end gracefully, ms. */
const DRAIN_MS = 10_000;

export class ServerWorker implements RunningWorker {
  readonly #events: WorkerEvents;
  /** Connections are not reused: the worker may close an idle one just as a request is sent on it. */
  readonly #agent = new Agent({ keepAlive: false });
  readonly #open = new Set<ProxiedRequest>();
  #carried: LaunchedProcess = { pid: undefined, terminate() {}, kill() {} };
  #reach: Reach = { host: '', port: 0, healthPort: 0 };
  #timer: NodeJS.Timeout | undefined;
  #ready = false;
  #failed = 0;
  /** Since when it refuses connections (monotonic). */
  #doubtedAt: number | undefined;
  #ending = false;
  #gone = false;

  constructor(events: WorkerEvents) {
    this.#events = events;
  }

  /**
   * Starts the program; events report what follows. `site` may reject: the worker then ends with the error's message.
   */
  launch(spec: WorkerStart, base: Readonly<Record<string, string>>, site: Promise<ServerSite>): void {
    site.then(
      (found) => {
        if (this.#ending) this.#exited('the worker was stopped');
        else this.#begin(spec, base, found);
      },
      (error: unknown) => this.#exited(`starting the worker failed: ${messageOf(error)}`),
    );
  }

  serve(request: HttpRequest, events: HttpEvents): HttpCall {
    const proxied: ProxiedRequest = new ProxiedRequest(this.#reach, request, events, {
      agent: this.#agent,
      onRefused: () => this.#doubt(),
      onInvalid: (text) => this.#events.log({ stream: 'system', jobId: '', text }),
      onOver: () => this.#open.delete(proxied),
    });
    this.#open.add(proxied);
    return proxied;
  }

  // It runs no jobs: its endpoint has no queue.
  run(): void {}
  cancel(): void {}
  credit(): void {}

  end(force: boolean): void {
    this.#ending = true;
    clearTimeout(this.#timer);
    if (force) {
      this.#carried.kill('the worker was killed');
      return;
    }
    this.#carried.terminate();
    this.#timer = setTimeout(() => this.#carried.kill('the worker did not stop cleanly'), DRAIN_MS);
  }

  #begin(spec: WorkerStart, base: Readonly<Record<string, string>>, { variables, carry, reach }: ServerSite): void {
    this.#carried = carry(
      spec,
      { ...base, ...workerEnv(spec), ...variables },
      {
        preparing: (reason, detail) => this.#events.preparing(reason, detail),
        startFailed: (reason, detail) => this.#events.startFailed(reason, detail),
        started: () => {
          this.#events.started();
          reach().then(
            (found) => {
              this.#reach = found;
              this.#askLater(ASK_MS);
            },
            (error: unknown) => this.#carried.kill(`the worker is unreachable: ${messageOf(error)}`),
          );
        },
        line: (stream, text) => this.#events.log({ stream, jobId: '', text }),
        exited: (detail) => this.#exited(detail),
      },
    );
  }

  #askLater(ms: number): void {
    if (this.#ending || this.#gone) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ping(), ms);
  }

  /** It no longer listens: it receives no request before it answers GET /ping again. */
  #doubt(): void {
    if (this.#doubtedAt !== undefined || this.#ending || this.#gone) return;
    this.#doubtedAt = performance.now();
    this.#events.reachable(false);
    this.#askLater(ASK_MS);
  }

  #ping(): void {
    const { host, healthPort: port } = this.#reach;
    const asked = get({ host, port, path: '/ping', agent: false, timeout: ANSWER_MS }, (response) => {
      response.resume();
      this.#answered(response.statusCode ?? 0);
    });
    asked.on('timeout', () => asked.destroy(new Error('no response in time')));
    asked.on('error', () => this.#answered(0));
  }

  #answered(status: number): void {
    if (this.#ending || this.#gone) return;
    if (!this.#ready) {
      if (status === 200) {
        this.#ready = true;
        this.#events.loaded();
      }
      this.#askLater(this.#ready ? ASK_AGAIN_MS : ASK_MS);
      return;
    }
    if (this.#doubtedAt !== undefined) this.#answeredInDoubt(status, performance.now() - this.#doubtedAt);
    else {
      this.#failed = status === 200 || status === 204 ? 0 : this.#failed + 1;
      if (this.#failed >= MAX_FAILED) this.#carried.kill(`the worker does not respond to GET /ping (${MAX_FAILED} tries)`);
      else this.#askLater(ASK_AGAIN_MS);
    }
  }

  #answeredInDoubt(status: number, ms: number): void {
    if (status === 200) {
      this.#doubtedAt = undefined;
      this.#failed = 0;
      this.#events.reachable(true);
      this.#askLater(ASK_AGAIN_MS);
    } else if (ms >= DOUBT_MS)
      this.#carried.kill(`the worker refuses connections and did not respond to GET /ping for ${DOUBT_MS / 1000} s`);
    else this.#askLater(ASK_MS);
  }

  #exited(detail: string): void {
    this.#gone = true;
    clearTimeout(this.#timer);
    this.#agent.destroy();
    for (const request of this.#open) request.fail(detail);
    if (!this.#ending) this.#events.log({ stream: 'system', jobId: '', text: detail });
    this.#events.exited(detail, false);
  }
}
