/** One worker of the thread runtime: turns frames of its host into what the agent wants to know. */
import { assertNever } from '../../../proto/errors.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { STOP_GRACE_MS, type RunningWorker, type Task, type WorkerEvents, type WorkerStart } from '../runtime.ts';
import type { HostListener, HostProcess } from './host-process.ts';
import type { FromHost } from './protocol.ts';

/** The host has stopped a handler, or killed itself, long before this after a cancel, ms. */
const HOST_LAPSE_MS = 3 * STOP_GRACE_MS;

export class ThreadWorker implements RunningWorker, HostListener {
  readonly #host: HostProcess;
  readonly #events: WorkerEvents;
  readonly #onSettled: () => void;
  /** The tasks the host has, with their jobs. */
  readonly #tasks = new Map<string, string>();
  readonly #entered = new Set<string>();
  readonly #cancels = new Map<string, NodeJS.Timeout>();
  /** How often the host loaded its module again. */
  #life = 0;
  #hardStop = false;
  #ending = false;
  #death: string | undefined;

  constructor(
    host: HostProcess,
    spec: WorkerStart,
    fn: FunctionSpec,
    env: Readonly<Record<string, string>>,
    events: WorkerEvents,
    onSettled: () => void,
  ) {
    this.#host = host;
    this.#events = events;
    this.#onSettled = onSettled;
    host.listen(this);
    host.limitMemory(spec.memoryBytes);
    host.send({ t: 'load', env, folder: spec.folder, function: fn, endpointId: spec.endpointId });
  }

  run({ key, jobId, attempt, input, s3Config }: Task): void {
    this.#tasks.set(key, jobId);
    this.#host.send({ t: 'run', life: this.#life, key, jobId, attempt, s3Config }, input);
  }

  cancel(key: string): void {
    if (!this.#tasks.has(key) || this.#cancels.has(key)) return;
    this.#host.send({ t: 'cancel', key });
    this.#cancels.set(
      key,
      setTimeout(() => this.#killHard(), HOST_LAPSE_MS),
    );
  }

  credit(key: string, count: number): void {
    this.#host.send({ t: 'credit', key, count });
  }

  end(force: boolean): void {
    this.#ending = true;
    // Gently or not: the worker holds no task when it is asked gently, and has nothing to put in order.
    this.#host.kill(force ? 'the worker was killed' : 'the worker was ended');
  }

  entered(key: string): void {
    if (!this.#tasks.has(key) || this.#entered.has(key)) return;
    this.#entered.add(key);
    this.#events.entered(key);
  }

  frame(frame: FromHost, body: Buffer): void {
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
        this.entered(frame.key);
        this.#events.chunk(frame.key, body);
        break;
      case 'progress':
        this.entered(frame.key);
        this.#events.progress(frame.key, body);
        break;
      case 'returned':
        this.entered(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'returned', output: body, ms: frame.ms });
        break;
      case 'failed':
        this.entered(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'failed', error: frame.error, ms: frame.ms });
        break;
      case 'stopped':
        if (frame.entered) this.entered(frame.key);
        this.#forget(frame.key);
        this.#events.ended(frame.key, { kind: 'stopped', ms: frame.ms });
        break;
      case 'reloading':
        this.#life += 1;
        this.#forgetAll();
        this.#events.reloading();
        break;
      case 'stuck':
        this.#killHard();
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
    const [sole] = this.#tasks.values();
    this.#events.log({ stream, jobId: this.#tasks.size === 1 ? (sole ?? '') : '', text });
  }

  exited(detail: string): void {
    this.#forgetAll();
    const why = this.#death ?? detail;
    if (!this.#ending) this.#events.log({ stream: 'system', jobId: '', text: why });
    this.#events.exited(why, this.#hardStop);
    this.#onSettled();
  }

  #killHard(): void {
    this.#hardStop = true;
    this.#host.kill('the worker was killed: a stopped job did not end');
  }

  #log(stream: 'stdout' | 'stderr', jobId: string, text: string): void {
    const lines = text.endsWith('\n') ? text.slice(0, -1) : text;
    for (const line of lines.split('\n')) this.#events.log({ stream, jobId, text: line });
  }

  #forget(key: string): void {
    this.#tasks.delete(key);
    this.#entered.delete(key);
    clearTimeout(this.#cancels.get(key));
    this.#cancels.delete(key);
  }

  #forgetAll(): void {
    for (const key of this.#tasks.keys()) this.#forget(key);
  }
}
