/**
 * A worker that speaks the worker protocol itself. This class implements the interface of every runtime and the HTTP
 * calls with which the worker fetches its jobs.
 *
 * A posted result ends a job. A worker posts nothing about a job that it stopped or whose result it could not write as
 * JSON, so three other events end one too: a job request that says it holds none, a ping that omits a job it was told
 * to stop, and the worker's exit.
 */
import { afterGrace } from '../grace.ts';
import { STOP_GRACE_MS, type RunningWorker, type Task, type TaskResult, type WorkerEvents, type WorkerStart } from '../runtime.ts';
import type { TakeRequest, JobMailbox, Handout, JobPost, Ping } from '../../worker-api/job-mailbox.ts';
import { LastOutput } from '../last-output.ts';
import { AttemptProcesses } from '../hosted/attempt-processes.ts';
import type { LaunchedProcess, Launcher } from './launcher.ts';
import { ForeignTask } from './foreign-task.ts';
import { LongPolls } from './long-poll.ts';

/** A call without a response ends after this time, ms: clients hang up after 90 s. */
const HOLD_MS = 60_000;
/** The same for a closing worker: long enough to prevent a busy loop. */
const HOLD_LAST_MS = 200;
/** A stop for an unknown job (the stop overtook the job) is repeated after this time, ms. */
const RESEND_MS = 500;
/** Pings run concurrently with the jobs: a ping sent this long after a stop takes the stop into account, ms. */
const PING_LAG_MS = 1_000;
/**
 * A worker that has read a stop must show within this time that the job is over, ms: without other jobs by requesting a
 * job …
 */
const PROOF_MS = 5_000;
/** … otherwise by its pings, two of which occur in the time beyond that. */
const PINGS = 2;
/** Time for a worker without jobs to end gracefully, ms. */
const DRAIN_MS = 10_000;
/** Longest line that is searched for a job id, characters. */
const MAX_LOG_DOCUMENT = 65_536;

const NOTHING: Handout = { jobs: [], written() {}, lost() {} };
const HARD_STOP = 'the worker was killed: a cancelled job did not end';

export interface ForeignTimes {
  /** Ping interval requested from workers, ms. */
  readonly pingMs: number;
  /** A worker with no job must fetch an assigned job within this time, ms; otherwise it counts as hung. */
  readonly fetchMs: number;
}

export class ForeignWorker implements RunningWorker, JobMailbox {
  readonly #events: WorkerEvents;
  #process: LaunchedProcess = { pid: undefined, terminate() {}, kill() {} };
  /** In order of arrival. */
  readonly #tasks = new Map<string, ForeignTask>();
  readonly #takes = new LongPolls<TakeRequest, Handout>(NOTHING);
  readonly #stopPolls = new LongPolls<undefined, readonly string[]>([]);
  /** Jobs that are over for the agent but perhaps not for the worker. */
  readonly #abandoned = new Set<string>();
  readonly #times: ForeignTimes;
  readonly #onGone: () => void;
  #cancelFetch: (() => void) | undefined;
  #cancelEnd: (() => void) | undefined;
  #tellAgain: NodeJS.Timeout | undefined;
  #started = false;
  #loaded = false;
  readonly #lastOutput = new LastOutput();
  #slots: number | undefined;
  #workerId = '';
  /** Those of the running job, where the worker takes one at a time and its processes are known. */
  #processes: Pick<AttemptProcesses, 'end'> | undefined;
  /** What a stopped job started is being ended: the next one waits. */
  #isClearing = false;
  /** The worker asked to be replaced: it receives nothing more. */
  #recycling = false;
  #ending = false;
  #gone = false;
  #hardStop = false;
  /** Pings of this worker have listed its jobs. */
  #pingsNameJobs = false;

  /** `onGone`: nothing calls this mailbox any more. */
  constructor(events: WorkerEvents, times: ForeignTimes, onGone: () => void) {
    this.#events = events;
    this.#times = times;
    this.#onGone = onGone;
  }

  /** Starts its program. Called once. */
  launch(spec: WorkerStart, env: Readonly<Record<string, string>>, launcher: Launcher): void {
    const events = this.#events;
    this.#workerId = spec.workerId;
    this.#process = launcher(spec, env, {
      preparing: (reason, detail) => events.preparing(reason, detail),
      startFailed: (reason, detail) => events.startFailed(reason, detail),
      started: () => {
        this.#started = true;
        events.started();
      },
      line: (stream, text) => {
        if (!this.#loaded) this.#lastOutput.keep(text);
        events.log({ stream, jobId: this.#jobOf(text), text });
      },
      exited: (detail, isUnread) => this.#exited(detail, isUnread),
    });
  }

  run(task: Task): void {
    this.#tasks.set(task.key, new ForeignTask(task));
    this.#serveTakes();
  }

  cancel(key: string): void {
    const held = this.#tasks.get(key);
    if (held === undefined || held.stop !== undefined) return;
    if (held.state === 'waiting') {
      this.#end(held, { kind: 'stopped', ms: 0 });
      return;
    }
    const { pid } = this.#process;
    const terminate = afterGrace(STOP_GRACE_MS, () => this.#force(held, () => this.#process.terminate()), pid);
    const kill = afterGrace(2 * STOP_GRACE_MS, () => this.#force(held, () => this.#process.kill(HARD_STOP)), pid);
    const alone = afterGrace(PROOF_MS, () => {
      if (this.#running === 1) this.#kill(HARD_STOP, true);
    });
    const last = afterGrace(PROOF_MS + PINGS * this.#times.pingMs, () => this.#kill(HARD_STOP, true));
    held.stop = {
      firstToldAt: undefined,
      sentAt: -Infinity,
      received: false,
      cancel: () => {
        terminate();
        kill();
        alone();
        last();
      },
    };
    this.#serveStops();
  }

  recall(key: string): void {
    const held = this.#tasks.get(key);
    if (held?.state === 'waiting' && held.stop === undefined) this.#end(held, { kind: 'stopped', ms: 0 });
  }

  credit(key: string, count: number): void {
    this.#tasks.get(key)?.grant(count);
  }

  end(force: boolean): void {
    this.#ending = true;
    if (force) {
      this.#kill('the worker was killed', false);
      return;
    }
    this.#endInOrder();
  }

  async take(ask: TakeRequest, gone: AbortSignal): Promise<Handout> {
    if (ask.busy === false) this.#holdsNothing();
    this.#showSlots(ask.count);
    this.#cancelFetch?.();
    this.#cancelFetch = undefined;
    if (!this.#loaded && !this.#ending) {
      this.#loaded = true;
      this.#events.loaded();
    }
    const handout = this.#handoutFor(ask) ?? (await this.#takes.hold(ask, this.#leaving ? HOLD_LAST_MS : HOLD_MS, gone));
    this.#watchFetch();
    return handout;
  }

  async stops(gone: AbortSignal): Promise<readonly string[]> {
    for (const { stop } of this.#tasks.values()) if (stop?.firstToldAt !== undefined) stop.received = true;
    return this.#stopsToTell() ?? (await this.#stopPolls.hold(undefined, this.#leaving ? HOLD_LAST_MS : HOLD_MS, gone));
  }

  post(jobId: string, post: JobPost): void {
    const held = this.#heldOf(jobId);
    if (post.kind === 'progress') {
      if (held !== undefined) this.#progress(held, post.output);
      return;
    }
    if (post.stopPod) this.#recycling = true;
    this.#abandoned.delete(jobId);
    // Late, for a stopped job, or for an unknown one: the server has already decided.
    if (held !== undefined) {
      this.#enter(held);
      const ms = performance.now() - held.enteredAt;
      const { kind, output } = post;
      if (kind === 'returned') this.#end(held, { kind, output, ms });
      else this.#end(held, { kind, error: post.error, ms, ...(output === undefined ? {} : { output }) });
    }
    this.#recycle();
  }

  refuse(jobId: string, fault: string): void {
    const held = this.#heldOf(jobId);
    if (held === undefined) return;
    this.#enter(held);
    this.#abandoned.add(jobId);
    this.#end(held, { kind: 'failed', error: fault, ms: performance.now() - held.enteredAt });
    this.#serveStops();
  }

  async chunk(jobId: string, data: Buffer, gone: AbortSignal): Promise<void> {
    const held = this.#heldOf(jobId);
    if (held === undefined) return;
    this.#enter(held);
    await held.credit();
    // A caller that disconnected sends the chunk again.
    if (gone.aborted) held.grant(1);
    else if (this.#tasks.get(held.task.key) === held) this.#events.chunk(held.task.key, data);
  }

  ping({ jobIds, unhealthy }: Ping): void {
    if (unhealthy !== undefined) {
      if (this.#loaded) this.#kill(`the worker reports that it is unhealthy: ${unhealthy}`, false);
      else this.#events.loadFailed(unhealthy);
      return;
    }
    if (jobIds !== undefined) this.#pingsNameJobs = true;
    if (!this.#pingsNameJobs) return;
    const now = performance.now();
    for (const held of this.#tasks.values()) {
      const { stop, task } = held;
      if (stop?.received !== true || stop.firstToldAt === undefined || now - stop.firstToldAt < PING_LAG_MS) continue;
      if (jobIds?.includes(task.jobId) !== true) this.#end(held, { kind: 'stopped', ms: now - held.enteredAt });
    }
  }

  get #leaving(): boolean {
    return this.#ending || this.#gone;
  }

  /** The worker says that it holds no job: its previous jobs are over, whether or not it posted a result. */
  #holdsNothing(): void {
    this.#abandoned.clear();
    for (const held of this.#tasks.values()) {
      if (held.state !== 'running') continue;
      const ms = performance.now() - held.enteredAt;
      const error = 'the worker ended the job without a result; check that the handler returns JSON';
      this.#end(held, held.stop === undefined ? { kind: 'failed', error, ms } : { kind: 'stopped', ms });
    }
    this.#recycle();
  }

  /** A worker shows how many jobs it takes at once by those that it has and those that it requests. */
  #showSlots(requested: number): void {
    const held = [...this.#tasks.values()].filter(({ state }) => state !== 'waiting').length;
    const slots = held + this.#takes.size + requested;
    if (slots === this.#slots) return;
    this.#slots = slots;
    this.#events.slots?.(slots);
  }

  #serveTakes(): void {
    this.#takes.serve((ask) => this.#handoutFor(ask));
    this.#watchFetch();
  }

  #handoutFor({ count }: TakeRequest): Handout | undefined {
    if (this.#leaving || this.#recycling || this.#isClearing) return undefined;
    const taken: ForeignTask[] = [];
    for (const held of this.#tasks.values()) {
      // Two attempts of one job share its id; only their order tells them apart.
      if (held.state !== 'waiting' || this.#heldOf(held.task.jobId) !== undefined) continue;
      held.state = 'offered';
      taken.push(held);
      if (taken.length === count) break;
    }
    if (taken.length === 0) return undefined;
    this.#noteStart();
    return {
      jobs: taken.map((held) => held.document()),
      written: () => {
        for (const held of taken) this.#enter(held);
        this.#serveStops();
      },
      lost: () => this.#takeBack(taken),
    };
  }

  #takeBack(taken: readonly ForeignTask[]): void {
    for (const held of taken) {
      if (held.state !== 'offered') continue;
      held.state = 'waiting';
      if (held.stop !== undefined) this.#end(held, { kind: 'stopped', ms: 0 });
    }
    this.#serveTakes();
  }

  #enter(held: ForeignTask): void {
    if (held.state === 'running' || this.#tasks.get(held.task.key) !== held) return;
    held.state = 'running';
    held.enteredAt = performance.now();
    this.#events.entered(held.task.key);
  }

  #progress(held: ForeignTask, output: Buffer): void {
    this.#enter(held);
    if (held.stop === undefined) this.#events.progress(held.task.key, output);
  }

  #end(held: ForeignTask, result: TaskResult): void {
    const { key } = held.task;
    if (this.#tasks.get(key) !== held) return;
    this.#tasks.delete(key);
    held.over();
    const processes = result.kind === 'stopped' && held.state === 'running' ? this.#processes : undefined;
    if (processes === undefined) {
      this.#events.ended(key, result);
      this.#serveTakes();
      return;
    }
    this.#isClearing = true;
    void processes.end().then(() => {
      this.#isClearing = false;
      // Its exit reports what it had.
      if (this.#gone) return;
      this.#events.ended(key, result);
      this.#serveTakes();
    });
  }

  /** A job is about to be given: what is started from now on is its own, if it is alone. */
  #noteStart(): void {
    const { pid } = this.#process;
    const isAlone = (this.#slots ?? 1) <= 1 && [...this.#tasks.values()].filter(({ state }) => state !== 'waiting').length === 1;
    this.#processes = isAlone ? this.#process.beginJob?.() : undefined;
    if (!isAlone || pid === undefined || this.#processes !== undefined) return;
    const processes = AttemptProcesses.ofProgram(pid, this.#workerId);
    processes?.begin();
    this.#processes = processes;
  }

  /** Returns the task of a job that the worker was given. */
  #heldOf(jobId: string): ForeignTask | undefined {
    for (const held of this.#tasks.values()) if (held.state !== 'waiting' && held.task.jobId === jobId) return held;
    return undefined;
  }

  #serveStops(): void {
    this.#stopPolls.serve(() => this.#stopsToTell());
  }

  /** Returns the jobs to stop that the worker has not been told of, or not recently. */
  #stopsToTell(): readonly string[] | undefined {
    const now = performance.now();
    const ids: string[] = [];
    let later = false;
    for (const { state, stop, task } of this.#tasks.values()) {
      if (stop === undefined || state !== 'running') continue;
      if (now - stop.sentAt < RESEND_MS) {
        later = true;
        continue;
      }
      stop.firstToldAt ??= now;
      stop.sentAt = now;
      ids.push(task.jobId);
    }
    ids.push(...this.#abandoned);
    this.#abandoned.clear();
    if (later || ids.length > 0) {
      this.#tellAgain ??= setTimeout(() => {
        this.#tellAgain = undefined;
        this.#serveStops();
      }, RESEND_MS);
    }
    return ids.length === 0 ? undefined : ids;
  }

  /** Stops by force unless the worker has read the stop: it then gets time to show that it obeyed. */
  #force(held: ForeignTask, act: () => void): void {
    if (held.stop?.received === true) return;
    this.#hardStop = true;
    act();
  }

  /** A worker that neither works nor requests work hangs. Its pings prove nothing: another process sends them. */
  #watchFetch(): void {
    const states = [...this.#tasks.values()].map(({ state }) => state);
    const mayCome = states.includes('waiting') && !states.some((state) => state !== 'waiting') && this.#takes.size === 0;
    if (!mayCome || this.#recycling || this.#leaving) {
      this.#cancelFetch?.();
      this.#cancelFetch = undefined;
      return;
    }
    const { fetchMs } = this.#times;
    this.#cancelFetch ??= afterGrace(fetchMs, () => {
      this.#kill(`the worker hangs: it is idle and has not fetched a job for ${fetchMs / 1000} s`, false);
    });
  }

  /** Replaces a worker that asked for it, once it holds nothing. */
  #recycle(): void {
    if (!this.#recycling || this.#leaving) return;
    for (const { state } of this.#tasks.values()) if (state !== 'waiting') return;
    this.#ending = true;
    this.#hardStop = true;
    this.#endInOrder();
  }

  #endInOrder(): void {
    this.#process.terminate();
    // Held calls would delay the worker's exit.
    this.#takes.release();
    this.#stopPolls.release();
    this.#cancelEnd ??= afterGrace(DRAIN_MS, () => this.#process.kill('the worker did not stop in time'));
  }

  #kill(why: string, hardStop: boolean): void {
    this.#hardStop ||= hardStop;
    this.#process.kill(why);
  }

  #exited(detail: string, isUnread = false): void {
    this.#gone = true;
    this.#cancelFetch?.();
    this.#cancelEnd?.();
    clearTimeout(this.#tellAgain);
    this.#takes.release();
    this.#stopPolls.release();
    for (const held of this.#tasks.values()) held.over();
    this.#tasks.clear();
    const why = this.#recycling ? 'the worker requested to be replaced' : detail;
    if (!this.#ending || this.#recycling) this.#events.log({ stream: 'system', jobId: '', text: why });
    this.#onGone();
    const isFailedStart = this.#started && !this.#loaded && !this.#ending && !this.#recycling;
    this.#events.exited(
      isFailedStart ? `${why}${this.#lastOutput.describe()}` : why,
      this.#hardStop || this.#recycling,
      undefined,
      isUnread,
    );
  }

  /** Workers with the protocol's standard client print JSON lines that name their job. */
  #jobOf(text: string): string {
    if (text.startsWith('{') && text.length <= MAX_LOG_DOCUMENT && text.includes('"requestId"')) {
      try {
        const { requestId } = JSON.parse(text) as { requestId?: unknown };
        if (typeof requestId === 'string' && this.#heldOf(requestId) !== undefined) return requestId;
      } catch {
        // The line is not JSON: treated as an ordinary line.
        return this.#onlyRunningJob();
      }
    }
    return this.#onlyRunningJob();
  }

  #onlyRunningJob(): string {
    if (this.#running !== 1) return '';
    for (const { state, task } of this.#tasks.values()) if (state === 'running') return task.jobId;
    return '';
  }

  /** Jobs that the worker has. */
  get #running(): number {
    let count = 0;
    for (const { state } of this.#tasks.values()) if (state === 'running') count += 1;
    return count;
  }
}
