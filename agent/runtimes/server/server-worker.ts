/**
 * A worker with its own server: it receives PORT and PORT_HEALTH, GET /ping or another sign shows that it is ready
 * (health-check.ts), and requests are forwarded to it.
 */

import { messageOf } from '../../../lib/to-error.ts';
import { WORKER_STOPPED } from '../../../lib/job-errors.ts';
import { WorkerEnd } from '../../../proto/gen/capstan/v1/invoke.ts';
import { checkAgain, checkServer, describeCheck, isHealthy, readyBy, type CheckResult, type ReadyBy } from './health-check.ts';
import { expandedCommand } from '../command-line.ts';
import type { LaunchedProcess } from '../foreign/launcher.ts';
import { workerEnv } from '../hosted/worker-env.ts';
import { withBase } from '../node-options.ts';
import type { HttpCall, HttpEvents, HttpRequest, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { LastOutput } from '../last-output.ts';
import type { ReadingShare } from '../reading-shares.ts';
import { ProxiedRequest } from './proxied-request.ts';
import { ServerAgent } from './server-agent.ts';
import type { Reach, ServerSite } from './site.ts';

/** Interval of health checks before it is ready, ms; and after. */
const ASK_MS = 200;
const ASK_AGAIN_MS = 5_000;
/** Consecutive failed checks until it counts as dead. */
const MAX_FAILED = 3;
/** Time for a worker that refuses connections to listen again, ms. */
const DOUBT_MS = MAX_FAILED * ASK_AGAIN_MS;
/** Time after which a server that accepts connections and answers none in HTTP counts as ready, ms; at most half of its start-up time. */
const ACCEPT_MS = 60_000;
/** A start without an answer is explained after this time, ms, and then at most as often. */
const EXPLAIN_MS = 1_000;
/** Time for an early response to a long body where pasta is between the agent and the worker, ms. */
const HOLD_MS = 50;
/** Time for a worker without requests to end gracefully, ms. */
const DRAIN_MS = 10_000;

export class ServerWorker implements RunningWorker {
  readonly #events: WorkerEvents;
  /** Connections are not reused: the worker may close an idle one just as a request is sent on it. */
  readonly #isRefused = (): boolean => this.#process.listens?.(this.#reach.port) === false;
  /** Of its account. */
  #share: ReadingShare | undefined;
  readonly #agent = new ServerAgent(this.#isRefused, () => this.#share);
  readonly #open = new Set<ProxiedRequest>();
  #process: LaunchedProcess = { pid: undefined, terminate() {}, kill() {} };
  #reach: Reach = { host: '', port: 0, healthPort: 0 };
  #timer: NodeJS.Timeout | undefined;
  /** How it showed that it is ready; null before. */
  #readyBy: ReadyBy | null = null;
  /** Since when its start accepts connections without an answer in HTTP (monotonic). */
  #acceptsSince: number | undefined;
  #acceptMs = ACCEPT_MS;
  #startedAt = 0;
  #explainedAt = 0;
  #explained = '';
  readonly #lastOutput = new LastOutput();
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
    this.#share = spec.reading?.share;
    if (spec.startTimeoutMs !== undefined && spec.startTimeoutMs > 0) this.#acceptMs = Math.min(ACCEPT_MS, spec.startTimeoutMs / 2);
    site.then(
      (found) => {
        if (this.#ending) this.#exited(WORKER_STOPPED);
        else this.#begin(spec, base, found);
      },
      (error: unknown) => this.#exited(`starting the worker failed: ${messageOf(error)}`),
    );
  }

  serve(request: HttpRequest, events: HttpEvents): HttpCall {
    const proxied: ProxiedRequest = new ProxiedRequest(this.#reach, request, events, {
      // An upgraded connection belongs to no agent, which would end it with the others.
      agent: request.upgrade === true ? new ServerAgent(this.#isRefused, () => this.#share) : this.#agent,
      isRefused: this.#isRefused,
      holdMs: this.#process.listens === undefined ? 0 : HOLD_MS,
      onRefused: () => this.#doubt(),
      onInvalid: (text) => this.#events.log({ stream: 'system', jobId: '', text }),
      onOver: () => this.#open.delete(proxied),
      workerEndOf: (request, isUnread) => this.#workerEndOf(request, isUnread),
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
      this.#process.kill('the worker was killed');
      return;
    }
    this.#process.terminate();
    this.#timer = setTimeout(() => this.#process.kill('the worker did not stop cleanly'), DRAIN_MS);
  }

  #begin(spec: WorkerStart, base: Readonly<Record<string, string>>, { variables, launcher, reach }: ServerSite): void {
    const env = {
      ...withBase(base, workerEnv(spec)),
      CAPSTAN_MAX_CONCURRENCY: String(spec.maxConcurrency),
      ...variables,
    };
    this.#process = launcher({ ...spec, command: expandedCommand(spec.command, env) }, env, {
      preparing: (reason, detail) => this.#events.preparing(reason, detail),
      startFailed: (reason, detail) => this.#events.startFailed(reason, detail),
      started: () => {
        this.#startedAt = performance.now();
        this.#events.started();
        reach().then(
          (found) => {
            this.#reach = found;
            this.#askLater(ASK_MS);
          },
          (error: unknown) => this.#process.kill(`the worker is unreachable: ${messageOf(error)}`),
        );
      },
      line: (stream, text) => {
        this.#lastOutput.keep(text);
        this.#events.log({ stream, jobId: '', text });
      },
      exited: (detail, isUnread) => this.#exited(detail, isUnread),
    });
  }

  #askLater(ms: number): void {
    if (this.#ending || this.#gone) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), ms);
  }

  /** It no longer listens, or may be about to end: it receives no request before it answers GET /ping again. */
  #doubt(askMs = ASK_MS): void {
    if (this.#doubtedAt !== undefined || this.#ending || this.#gone) return;
    this.#doubtedAt = performance.now();
    this.#events.reachable(false);
    this.#askLater(askMs);
  }

  #check(): void {
    const by = this.#readyBy;
    const { host, healthPort } = this.#reach;
    // Where others accept connections in its place, only that tells whether it does.
    if (this.#process.listens?.(healthPort) === false) {
      this.#checked({ kind: 'unreachable', why: `connect ECONNREFUSED ${host}:${healthPort}` });
      return;
    }
    void (by === null ? checkServer(this.#reach, this.#share) : checkAgain(this.#reach, by, this.#share)).then((result) =>
      this.#checked(result),
    );
  }

  #checked(result: CheckResult): void {
    if (this.#ending || this.#gone) return;
    if (this.#readyBy === null) this.#checkedStart(result);
    else if (this.#doubtedAt !== undefined) this.#checkedInDoubt(result, this.#readyBy, performance.now() - this.#doubtedAt);
    else if (isHealthy(result, this.#readyBy)) {
      this.#failed = 0;
      this.#askLater(ASK_AGAIN_MS);
    } else {
      this.#failed += 1;
      if (this.#failed >= MAX_FAILED)
        this.#process.kill(`the worker does not respond (${MAX_FAILED} attempts): ${describeCheck(result, this.#reach)}`);
      else this.#askLater(ASK_AGAIN_MS);
    }
  }

  #checkedStart(result: CheckResult): void {
    const now = performance.now();
    this.#acceptsSince = result.kind === 'connected' ? (this.#acceptsSince ?? now) : undefined;
    const accepts = this.#acceptsSince !== undefined && now - this.#acceptsSince >= this.#acceptMs;
    const by = readyBy(result) ?? (accepts ? 'connection' : null);
    if (by === null) {
      this.#explain(describeCheck(result, this.#reach), now);
      this.#askLater(ASK_MS);
      return;
    }
    this.#readyBy = by;
    if (by !== 'ping')
      this.#events.log({
        stream: 'system',
        jobId: '',
        text: `the server is ready: ${describeCheck(result, this.#reach)}; it has no health check`,
      });
    this.#events.loaded();
    this.#askLater(ASK_AGAIN_MS);
  }

  /** Says what was tried and what came back, if that is news. */
  #explain(text: string, now: number): void {
    if (now - Math.max(this.#startedAt, this.#explainedAt) < EXPLAIN_MS) return;
    const full = `${text}${this.#lastOutput.describe()}`;
    if (full === this.#explained) return;
    this.#explained = full;
    this.#explainedAt = now;
    this.#events.waiting(full);
  }

  #checkedInDoubt(result: CheckResult, by: ReadyBy, ms: number): void {
    if (isHealthy(result, by) && !(result.kind === 'status' && result.status === 204)) {
      this.#doubtedAt = undefined;
      this.#failed = 0;
      this.#events.reachable(true);
      this.#askLater(ASK_AGAIN_MS);
    } else if (ms >= DOUBT_MS)
      this.#process.kill(`the worker refuses connections and did not respond to GET /ping for ${DOUBT_MS / 1000} s`);
    else this.#askLater(ASK_MS);
  }

  /** A request lost its connection. Those beside it lose theirs one after the other: they are suspects as much as it is. */
  #workerEndOf(request: ProxiedRequest, isUnread: boolean): WorkerEnd | undefined {
    this.#doubt(0);
    if (isUnread) return undefined;
    if (this.#ending) return WorkerEnd.NEIGHBOUR;
    const isSuspect = request.isSuspect || this.#open.size > 1;
    for (const other of this.#open) other.isSuspect = true;
    return isSuspect ? WorkerEnd.SUSPECT : undefined;
  }

  #exited(detail: string, isUnread = false): void {
    this.#gone = true;
    clearTimeout(this.#timer);
    this.#agent.destroy();
    for (const request of this.#open) request.fail(detail);
    if (!this.#ending) this.#events.log({ stream: 'system', jobId: '', text: detail });
    this.#events.exited(
      this.#ending || this.#startedAt === 0 ? detail : `${detail}${this.#lastOutput.describe()}`,
      false,
      undefined,
      isUnread,
    );
  }
}
