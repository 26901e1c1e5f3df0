/** One worker whose handlers run in a host process: translates its host's frames into worker events. */
import { assertNever } from '../../../lib/errors.ts';
import { WORKER_STOPPED } from '../../../lib/job-errors.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { afterGrace } from '../grace.ts';
import {
  FIRST_CREDITS,
  STOP_GRACE_MS,
  type HttpCall,
  type HttpEvents,
  type HttpRequest,
  type RunningWorker,
  type Task,
  type WorkerEvents,
  type WorkerStart,
} from '../runtime.ts';
import { workerS3Config } from '../s3-config.ts';
import { LineAssembler } from '../line-assembler.ts';
import { HostRequests, type EndedBy } from './host-requests.ts';
import type { Host } from './host.ts';
import type { HostListener } from './host-listener.ts';
import type { OutputStream } from '../output-limiter.ts';
import type { FromHost, HttpFromHost } from '../host-protocol.ts';
import { linesOf } from '../worker-output.ts';
import { WorkerTasks } from './worker-tasks.ts';

/** Delay of force after a cancel that the host does not carry out, ms. */
export interface StopTimes {
  /** SIGTERM to the process group; absent when the host applies force itself. */
  readonly terminateMs: number | undefined;
  /** SIGKILL. */
  readonly killMs: number;
}

/** The host stops a handler, or kills itself, long before this. */
export const STOPPED_BY_HOST: StopTimes = { terminateMs: undefined, killMs: 3 * STOP_GRACE_MS };
/** The host can only ask the handler to stop. */
export const STOPPED_BY_AGENT: StopTimes = { terminateMs: STOP_GRACE_MS, killMs: 2 * STOP_GRACE_MS };

/** Time to end what a stopped task left behind, before force, ms. */
const CLEARING_MS = 5_000;

const HARD_STOP = 'the worker was killed: a cancelled job did not end';

export interface HostedStart {
  readonly spec: WorkerStart;
  readonly fn: FunctionSpec;
  /** Environment of the user's code. */
  readonly env: Readonly<Record<string, string>>;
  readonly stopTimes: StopTimes;
}

export class HostWorker implements RunningWorker, HostListener {
  readonly #host: Host;
  readonly #events: WorkerEvents;
  readonly #onSettled: () => void;
  readonly #tasks = new WorkerTasks();
  readonly #entered = new Set<string>();
  /** Numbers of the running tasks, in the order in which the host got them. */
  readonly #numbers = new Map<string, number>();
  /** Tasks that the host is to return if it has not entered them. */
  readonly #recalled = new Set<string>();
  /** Tasks that were handed to the host, and entries that it wrote: one each. */
  #handed = 0;
  #entries = 0;
  readonly #assembler = new LineAssembler((stream, jobId, lines) => this.#sendLines(stream, jobId, lines));
  /** Chunks that each running task may still send. */
  readonly #credits = new Map<string, number>();
  /** Functions that cancel a forced stop, by task. */
  readonly #cancels = new Map<string, (() => void)[]>();
  /** Stopped tasks whose handlers have ended. */
  readonly #clearing = new Set<string>();
  readonly #stopTimes: StopTimes;
  readonly #requests: HostRequests;
  readonly #servesHttp: boolean;
  /** How often the host has reloaded its module. */
  #life = 0;
  #hardStop = false;
  #isUnread = false;
  #ending = false;
  #endTimer: NodeJS.Timeout | undefined;
  #death: string | undefined;
  /** The task or request whose code ends the process, if it is still there at the end. */
  #culprit: string | undefined;

  constructor(host: Host, { spec, fn, env, stopTimes }: HostedStart, events: WorkerEvents, onSettled: () => void) {
    this.#host = host;
    this.#events = events;
    this.#onSettled = onSettled;
    this.#stopTimes = stopTimes;
    this.#requests = new HostRequests({
      send: (frame, body) => host.send(frame, body),
      killMs: stopTimes.killMs,
      kill: () => this.#killHard('the worker was killed: a timed-out request did not end'),
    });
    host.readWithin(spec.reading);
    host.listen(this);
    const { folder, workFolder, endpointId, maxConcurrency } = spec;
    this.#servesHttp = spec.servesHttp === true;
    const httpFunctions = this.#servesHttp ? spec.functions : [];
    host.send({
      t: 'load',
      env,
      folder,
      workFolder,
      function: fn,
      httpFunctions,
      endpointId,
      maxConcurrency,
      processScope: host.processScope,
    });
  }

  serve(request: HttpRequest, events: HttpEvents): HttpCall {
    return this.#requests.add(request, events, this.#life);
  }

  run({ key, jobId, attempt, input, s3Config, trace = '' }: Task): void {
    this.#handed += 1;
    const no = this.#handed;
    this.#numbers.set(key, no);
    this.#tasks.add(key, jobId);
    this.#credits.set(key, FIRST_CREDITS);
    const secret = s3Config === undefined ? undefined : workerS3Config(s3Config);
    const order = { key, no, jobId, attempt, s3Config: secret, trace: trace === '' ? undefined : trace };
    this.#host.send({ t: 'run', life: this.#life, ...order }, input);
  }

  cancel(key: string): void {
    if (!this.#tasks.has(key) || this.#cancels.has(key)) return;
    this.#host.send({ t: 'cancel', key });
    const { terminateMs, killMs } = this.#stopTimes;
    const { pid } = this.#host;
    // Its account's reader may have been held up, and what it says may be on its way.
    const catchUp = (): Promise<void> => this.#host.catchUp();
    const steps = [afterGrace(killMs, () => this.#killHard(), pid, catchUp)];
    if (terminateMs !== undefined) steps.push(afterGrace(terminateMs, () => this.#terminateHard(), pid, catchUp));
    this.#cancels.set(key, steps);
  }

  recall(key: string): void {
    const no = this.#numbers.get(key);
    if (no === undefined || this.#entered.has(key) || this.#recalled.has(key)) return;
    this.#recalled.add(key);
    this.#host.recall(key, no);
  }

  credit(key: string, count: number): void {
    const left = this.#credits.get(key);
    if (left !== undefined) this.#credits.set(key, left + count);
    this.#host.send({ t: 'credit', key, count });
  }

  end(force: boolean): void {
    this.#ending = true;
    clearTimeout(this.#endTimer);
    if (force || this.#requests.count === 0) {
      // By force or not: the worker holds no task when it is asked to end gracefully, and has nothing to clean up.
      this.#host.kill(force ? 'the worker was killed' : WORKER_STOPPED);
      return;
    }
    // Only WebSockets are left: their functions may come to an end.
    this.#requests.abortAll();
    this.#endTimer = setTimeout(() => this.#host.kill(WORKER_STOPPED), STOP_GRACE_MS);
  }

  entered(key: string): void {
    this.#enter(key);
    this.#countEntry();
  }

  returned(key: string): void {
    this.#countEntry();
    if (!this.#isOwn(key, 'the return of a task')) return;
    if (this.#entered.has(key) || !this.#recalled.has(key)) {
      this.#host.refuse(`the worker returned the task ${key}, which was not taken back`);
      return;
    }
    this.#forget(key);
    this.#events.ended(key, { kind: 'stopped', ms: 0 });
  }

  #countEntry(): void {
    this.#entries += 1;
    if (this.#entries > this.#handed) this.#host.refuse('the worker reported more entries of tasks than it has tasks');
  }

  #enter(key: string): void {
    if (!this.#isOwn(key, 'the entry of a task') || this.#entered.has(key)) return;
    this.#entered.add(key);
    this.#events.entered(key);
  }

  violation(why: string): void {
    this.#events.violation(why);
  }

  accepts(frame: FromHost): boolean {
    if (!('key' in frame) || this.#isOfRequest(frame)) return true;
    return this.#tasks.has(frame.key) && (frame.t !== 'chunk' || (this.#credits.get(frame.key) ?? 0) > 0);
  }

  frame(frame: FromHost, body: Buffer): void {
    if ('key' in frame && !this.#isOfRequest(frame) && !this.#isOwn(frame.key, `a frame ${frame.t}`)) return;
    switch (frame.t) {
      case 'up':
        this.#events.started();
        break;
      case 'loaded':
        this.#events.loaded();
        this.#onSettled();
        break;
      case 'load-failed':
        this.#events.loadFailed(frame.detail);
        break;
      case 'chunk':
        this.#enter(frame.key);
        if (this.#takeCredit(frame.key)) this.#events.chunk(frame.key, body);
        break;
      case 'progress':
        this.#enter(frame.key);
        this.#events.progress(frame.key, body);
        break;
      case 'returned':
        this.#enter(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'returned', output: body, ms: frame.ms });
        break;
      case 'failed':
        this.#enter(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'failed', error: frame.error, ms: frame.ms });
        break;
      case 'stopped':
        if (frame.entered) this.#enter(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'stopped', ms: frame.ms });
        break;
      case 'http-head':
      case 'http-body':
      case 'http-credit':
      case 'http-failed':
        this.#heardOfRequest(frame, body);
        break;
      case 'reloading':
        this.#life += 1;
        this.#forgetAll();
        this.#requests.loseAll('the functions of the worker were stopped', { kind: 'other' });
        this.#events.reloading();
        break;
      case 'clearing':
        this.#giveTimeToClear(frame.key);
        break;
      case 'stuck':
        this.#killHard();
        break;
      case 'culprit':
        this.#culprit ??= frame.key;
        break;
      case 'died':
        this.#death = `the worker died: ${frame.detail}`;
        break;
      case 'log':
        this.#log(frame.stream, frame.jobId, frame.text);
        break;
      default:
        assertNever(frame);
    }
  }

  line(stream: 'stdout' | 'stderr', text: string): void {
    this.#events.log({ stream, jobId: this.#tasks.soleJob, text });
  }

  closed(): void {
    this.#requests.close();
    // Its process is watched until it is gone, which may take a while: no request should wait for that.
    if (this.#servesHttp) this.#events.reachable(false);
  }

  unread(): void {
    this.#isUnread = true;
  }

  exited(detail: string): void {
    clearTimeout(this.#endTimer);
    const culprit = this.#presentCulprit();
    this.#assembler.end();
    this.#forgetAll();
    const why = this.#death ?? detail;
    this.#requests.loseAll(why, this.#endedBy(culprit));
    if (!this.#ending) this.#events.log({ stream: 'system', jobId: '', text: why });
    this.#events.exited(why, this.#hardStop, culprit, this.#isUnread);
    this.#onSettled();
  }

  /** User code can send any frame: only what this worker runs may have ended it. */
  #presentCulprit(): string | undefined {
    const key = this.#culprit;
    return key !== undefined && (this.#entered.has(key) || this.#requests.has(key)) ? key : undefined;
  }

  /** Once for each task: its own code could ask for it again and again. */
  #giveTimeToClear(key: string): void {
    const steps = this.#cancels.get(key);
    if (steps === undefined || this.#clearing.has(key)) return;
    this.#clearing.add(key);
    for (const cancel of steps) cancel();
    const { pid } = this.#host;
    this.#cancels.set(key, [
      afterGrace(
        CLEARING_MS,
        () => this.#killHard(),
        pid,
        () => this.#host.catchUp(),
      ),
    ]);
  }

  #endedBy(culprit: string | undefined): EndedBy {
    if (culprit !== undefined) return { kind: 'request', key: culprit };
    return { kind: this.#hardStop || this.#ending ? 'other' : 'unknown' };
  }

  /** Lets user code that listens for the signal clean up. */
  #terminateHard(): void {
    this.#hardStop = true;
    this.#host.terminate(HARD_STOP);
  }

  #killHard(why = HARD_STOP): void {
    this.#hardStop = true;
    this.#host.kill(why);
  }

  #isOfRequest(frame: Extract<FromHost, { readonly key: string }>): boolean {
    return frame.t.startsWith('http-') || (frame.t === 'culprit' && this.#requests.hasHad(frame.key));
  }

  /** Whether a task runs here. A worker that names one which never did ends (WorkerTasks says why an ended one may be named). */
  #isOwn(key: string, what: string): boolean {
    const ownership = this.#tasks.ownership(key);
    if (ownership === 'foreign') this.#refuse(what, `the task ${key}`);
    // The core knows whether it is another worker's.
    if (ownership === 'unknown') this.#events.entered(key);
    return ownership === 'running';
  }

  #heardOfRequest(frame: HttpFromHost, body: Buffer): void {
    const verdict = this.#requests.onFrame(frame, body);
    if (verdict === 'foreign') this.#refuse(`a frame ${frame.t}`, `the request ${frame.key}`);
    else if (verdict === 'beyond-credit') this.#host.refuse(`the worker sent a frame ${frame.t} beyond the credit of its request`);
  }

  #takeCredit(key: string): boolean {
    const left = this.#credits.get(key) ?? 0;
    if (left === 0) {
      this.#host.refuse('the worker sent more chunks than its credit');
      return false;
    }
    this.#credits.set(key, left - 1);
    return true;
  }

  #refuse(what: string, whose: string): void {
    this.#host.refuse(`the worker sent ${what} of ${whose}, which is not its own`);
  }

  #log(stream: 'stdout' | 'stderr', namedJob: string, text: string): void {
    const ownership = namedJob === '' ? 'unknown' : this.#tasks.ownershipOfJob(namedJob);
    if (ownership === 'foreign') {
      this.#refuse('a line', `the job ${namedJob}`);
      return;
    }
    this.#assembler.push(stream, ownership === 'unknown' ? '' : namedJob, text);
  }

  #sendLines(stream: OutputStream, jobId: string, text: string): void {
    for (const line of linesOf(text)) this.#events.log({ stream, jobId, text: line });
  }

  #forget(key: string): void {
    this.#assembler.end(this.#tasks.jobOf(key));
    this.#tasks.end(key);
    this.#entered.delete(key);
    this.#numbers.delete(key);
    this.#recalled.delete(key);
    this.#credits.delete(key);
    for (const cancel of this.#cancels.get(key) ?? []) cancel();
    this.#cancels.delete(key);
    this.#clearing.delete(key);
  }

  #forgetAll(): void {
    for (const key of this.#tasks.keys()) this.#forget(key);
  }
}
