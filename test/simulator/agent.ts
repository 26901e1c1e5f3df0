/**
 * An agent process in the simulated world: keeps to the session protocol, runs "handlers" that
 * take random time and end in random ways, and may crash, lose a worker, or lose its connection.
 */
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import {
  AttemptOutcome,
  RefusalReason,
  type AgentEvent,
  type AttemptEnded,
  type Hello,
  Inventory,
  type SchedulerEvent,
  type WorkerStatus,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { WorkerRecord } from '../../scheduler/core/state/fleet.ts';
import type { World } from './world.ts';

interface SimWorker {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly maxConcurrency: number;
  readonly devices: readonly string[];
  /** Its devices are its own, and it has begun to start. */
  begun: boolean;
  /** Starts that failed in a row. */
  failures: number;
  drain: boolean;
  ready: boolean;
  readonly attempts: Set<string>;
}

interface SimAttempt {
  readonly job: string;
  readonly token: number;
  readonly worker: string;
  started: number | null;
  ended: AttemptEnded | null;
  /** Chunks produced, and how many of them were read. */
  chunks: number;
  drained: number;
}

/** What the scheduler's side of the session sees. */
export interface AgentWiring {
  /** Opens a session; answers its number, or null when the scheduler is not there. */
  connect(agent: SimAgent, hello: Hello): number | null;
  send(agent: SimAgent, session: number, events: AgentEvent[]): void;
  /** The handler of an attempt was entered. */
  entered(job: string, token: number, node: string): void;
  /** An attempt is over, and its handler had yielded this many chunks. */
  ended(job: string, token: number, chunks: number): void;
}

export class SimAgent {
  readonly id: string;
  readonly #world: World;
  readonly #wiring: AgentWiring;
  readonly #workers = new Map<string, SimWorker>();
  readonly #attempts = new Map<string, SimAttempt>();
  session: number | null = null;
  alive = false;
  incarnation = '';
  overCapacity = 0;
  #life = 0;
  #epoch = 0;
  /** Chance that an attempt's worker dies under it. */
  lossRate = 0;
  /** Chance that the start of a worker fails. */
  failRate = 0;
  /** Numbers of its devices that are lost. */
  readonly #lost = new Set<number>();
  /** Longest handler, ms. */
  longest = 40;

  constructor(world: World, id: string, wiring: AgentWiring) {
    this.#world = world;
    this.id = id;
    this.#wiring = wiring;
  }

  start(): void {
    this.#life++;
    this.alive = true;
    this.#epoch = 0;
    this.incarnation = `${this.id}-${this.#life}`;
    this.#workers.clear();
    this.#attempts.clear();
    this.#reconnect(0);
  }

  crash(): void {
    this.#life++;
    this.alive = false;
    this.#world.trace(`agent ${this.id} crashed`);
  }

  /** One of its devices is lost, or there again. */
  setDevice(no: number, lost: boolean): void {
    this.#world.trace(`device ${no} of ${this.id} is ${lost ? 'lost' : 'there'}`);
    if (lost) this.#lost.add(no);
    else this.#lost.delete(no);
    if (this.alive) this.#send({ event: { $case: 'inventory', value: inventory(this.id, this.#lost) } });
  }

  disconnected(): void {
    if (this.session === null) return;
    this.session = null;
    // Now and then for longer than the grace period: then its work is given to others while it goes on.
    const { random } = this.#world;
    if (this.alive) this.#reconnect(random.chance(0.2) ? random.int(2_500, 5_000) : random.int(5, 400));
  }

  /** Attempts that hold a slot or whose result nobody acknowledged. */
  get pending(): number {
    return this.#attempts.size;
  }

  receive(event: SchedulerEvent): void {
    const message = event.event;
    if (message?.$case === 'stop') this.#stop(message.value.jobId, message.value.token);
    else if (message?.$case === 'ack') {
      const key = keyOf(message.value.jobId, message.value.token);
      const ended = this.#attempts.get(key)?.ended ?? null;
      if (ended !== null && !ended.slotHeld) this.#attempts.delete(key);
    } else if (message?.$case === 'drained') {
      const attempt = this.#attempts.get(keyOf(message.value.jobId, message.value.token));
      if (attempt !== undefined) attempt.drained = message.value.nextIndex;
    }
  }

  desired(epoch: number, workers: readonly WorkerRecord[]): void {
    if (epoch < this.#epoch) return;
    this.#epoch = epoch;
    const wanted = new Map(workers.map((worker) => [worker.id, worker]));
    for (const worker of this.#workers.values()) {
      const spec = wanted.get(worker.id);
      if (spec === undefined || spec.drain) worker.drain = true;
    }
    for (const spec of workers) if (!this.#workers.has(spec.id) && !spec.drain) this.#startWorker(spec);
    this.#reap();
    this.#reportWorkers();
  }

  dispatch(job: string, token: number, workerId: string): void {
    const key = keyOf(job, token);
    if (this.#attempts.has(key)) return;
    const worker = this.#workers.get(workerId);
    const refusal =
      worker === undefined
        ? RefusalReason.UNKNOWN_WORKER
        : !worker.ready
          ? RefusalReason.NOT_READY
          : worker.drain
            ? RefusalReason.DRAINING
            : worker.attempts.size >= worker.maxConcurrency
              ? RefusalReason.OVER_CAPACITY
              : null;
    if (refusal === RefusalReason.OVER_CAPACITY) this.overCapacity++;
    if (refusal !== null || worker === undefined) {
      this.#send({
        event: { $case: 'refused', value: { jobId: job, token, reason: refusal ?? RefusalReason.UNKNOWN_WORKER, detail: '' } },
      });
      return;
    }
    const attempt: SimAttempt = { job, token, worker: workerId, started: null, ended: null, chunks: 0, drained: 0 };
    this.#attempts.set(key, attempt);
    worker.attempts.add(key);
    this.#later(this.#world.random.next(), () => this.#enter(attempt));
  }

  #enter(attempt: SimAttempt): void {
    if (attempt.ended !== null || this.#attempts.get(keyOf(attempt.job, attempt.token)) !== attempt) return;
    attempt.started = this.#world.now;
    this.#wiring.entered(attempt.job, attempt.token, this.id);
    this.#send({ event: { $case: 'started', value: { jobId: attempt.job, token: attempt.token, agoMs: 0 } } });
    const { random } = this.#world;
    const outcome = random.chance(this.lossRate)
      ? AttemptOutcome.WORKER_LOST
      : random.chance(0.1)
        ? AttemptOutcome.FAILED
        : random.chance(0.03)
          ? AttemptOutcome.TIMED_OUT
          : AttemptOutcome.COMPLETED;
    const duration = random.chance(0.05) ? random.int(1_000, 4_000) : random.next() * this.longest;
    const chunks = random.chance(0.3) ? random.int(1, duration > this.longest ? 30 : 6) : 0;
    this.#yield(attempt, chunks, duration / (chunks + 1));
    this.#later(duration, () => this.#end(attempt, outcome));
  }

  /** A generator: its chunks say where they stand. */
  #yield(attempt: SimAttempt, left: number, apart: number): void {
    if (left === 0 || attempt.ended !== null) return;
    this.#sendChunk(attempt, attempt.chunks++);
    this.#later(this.#world.random.next() * 2 * apart, () => this.#yield(attempt, left - 1, apart));
  }

  #sendChunk({ job: jobId, token }: SimAttempt, index: number): void {
    const data = { body: { $case: 'inline', value: Buffer.from(`${token} ${index}`) } } as const;
    this.#send({ event: { $case: 'chunk', value: { jobId, token, index, data } } });
  }

  #stop(job: string, token: number): void {
    const attempt = this.#attempts.get(keyOf(job, token));
    if (attempt === undefined) {
      this.#send({ event: { $case: 'refused', value: { jobId: job, token, reason: RefusalReason.STOPPED, detail: '' } } });
    } else {
      // A handler takes a while to stop, and holds its slot until it has.
      this.#later(this.#world.random.next() * 50, () => this.#end(attempt, AttemptOutcome.STOPPED));
    }
  }

  /** Out of time now and then, before its handler has ended: that holds the slot for a while. */
  #end(attempt: SimAttempt, outcome: AttemptOutcome): void {
    if (attempt.ended !== null) return;
    const lingers = outcome === AttemptOutcome.TIMED_OUT && this.#world.random.chance(0.7);
    const output = Buffer.from(`${attempt.job} ${attempt.token}`);
    attempt.ended = {
      jobId: attempt.job,
      token: attempt.token,
      outcome,
      ...(outcome === AttemptOutcome.COMPLETED ? { output: { body: { $case: 'inline', value: output } } } : {}),
      error: outcome === AttemptOutcome.FAILED ? 'it failed' : '',
      executionMs: attempt.started === null ? 0 : Math.round(this.#world.now - attempt.started),
      agoMs: 0,
      started: attempt.started !== null,
      chunks: attempt.chunks,
      slotHeld: lingers,
    };
    this.#wiring.ended(attempt.job, attempt.token, attempt.chunks);
    if (lingers) {
      this.#send({ event: { $case: 'ended', value: attempt.ended } });
      this.#later(this.#world.random.int(1, 3_000), () => this.#freeSlot(attempt));
    } else this.#freeSlot(attempt);
  }

  #freeSlot(attempt: SimAttempt): void {
    if (attempt.ended === null) return;
    attempt.ended = { ...attempt.ended, slotHeld: false };
    this.#workers.get(attempt.worker)?.attempts.delete(keyOf(attempt.job, attempt.token));
    this.#send({ event: { $case: 'ended', value: attempt.ended } });
    if (this.#reap()) this.#reportWorkers();
  }

  #startWorker(spec: WorkerRecord): void {
    const worker: SimWorker = {
      id: spec.id,
      endpoint: spec.endpoint,
      release: spec.release,
      maxConcurrency: spec.maxConcurrency,
      devices: spec.devices,
      begun: false,
      failures: 0,
      drain: false,
      ready: false,
      attempts: new Set(),
    };
    this.#workers.set(spec.id, worker);
    this.#beginStarts();
  }

  /** Workers whose devices nobody else holds begin to start. */
  #beginStarts(): void {
    const held = new Set([...this.#workers.values()].flatMap(({ begun, devices }) => (begun ? devices : [])));
    for (const worker of this.#workers.values()) {
      if (worker.begun || worker.devices.some((device) => held.has(device))) continue;
      worker.begun = true;
      for (const device of worker.devices) held.add(device);
      this.#start(worker);
    }
  }

  #start(worker: SimWorker): void {
    const { random } = this.#world;
    this.#later(random.int(1, 200), () => {
      if (this.#workers.get(worker.id) !== worker) return;
      if (random.chance(this.failRate)) {
        worker.failures++;
        this.#later(random.int(200, 1_000), () => this.#start(worker));
      } else worker.ready = true;
      this.#reportWorkers();
    });
  }

  #reap(): boolean {
    let reaped = false;
    for (const worker of this.#workers.values()) {
      if (!worker.drain || worker.attempts.size > 0) continue;
      this.#workers.delete(worker.id);
      reaped = true;
    }
    if (reaped) this.#beginStarts();
    return reaped;
  }

  #reconnect(delay: number): void {
    this.#later(delay, () => {
      this.session = this.#wiring.connect(this, this.#hello());
      if (this.session === null) {
        this.#reconnect(this.#world.random.int(20, 300));
        return;
      }
      for (const attempt of this.#attempts.values()) {
        for (let index = attempt.drained; index < attempt.chunks; index++) this.#sendChunk(attempt, index);
      }
      for (const attempt of this.#attempts.values())
        if (attempt.ended !== null) this.#send({ event: { $case: 'ended', value: attempt.ended } });
      this.#beat(this.session);
    });
  }

  #beat(session: number): void {
    this.#later(1_500, () => {
      if (this.session !== session) return;
      this.#send({ event: { $case: 'heartbeat', value: {} } });
      this.#beat(session);
    });
  }

  #hello(): Hello {
    return {
      protocol: 1,
      incarnation: this.incarnation,
      agentVersion: 'simulated',
      workers: { epoch: this.#epoch, workers: this.#statuses() },
      attempts: [...this.#attempts.values()].map((attempt) => ({
        jobId: attempt.job,
        token: attempt.token,
        workerId: attempt.worker,
        started: attempt.started !== null,
        startedAgoMs: attempt.started === null ? 0 : Math.round(this.#world.now - attempt.started),
      })),
      inventory: inventory(this.id, this.#lost),
    };
  }

  #statuses(): WorkerStatus[] {
    return [...this.#workers.values()].map((worker) => ({
      workerId: worker.id,
      endpointId: worker.endpoint,
      releaseId: worker.release,
      state: !worker.ready
        ? worker.failures > 0
          ? WorkerState.UNHEALTHY
          : worker.begun
            ? WorkerState.INITIALIZING
            : WorkerState.THROTTLED
        : worker.drain
          ? WorkerState.DRAINING
          : worker.attempts.size > 0
            ? WorkerState.RUNNING
            : WorkerState.IDLE,
      reason: '',
      detail: '',
      failures: worker.failures,
      deviceUuids: [...worker.devices],
      artifactMs: 0,
      startedMs: 0,
      loadedMs: 0,
    }));
  }

  #reportWorkers(): void {
    this.#send({ event: { $case: 'workers', value: { epoch: this.#epoch, workers: this.#statuses() } } });
  }

  #send(event: AgentEvent): void {
    if (this.session !== null) this.#wiring.send(this, this.session, [event]);
  }

  #later(delay: number, run: () => void): void {
    const life = this.#life;
    this.#world.after(delay, () => {
      if (life === this.#life && this.alive) run();
    });
  }
}

function keyOf(job: string, token: number): string {
  return `${job} ${token}`;
}

/** Numbers of a host's devices. */
export const DEVICES: readonly number[] = [1, 2];

/** A host with two devices. */
function inventory(hostname: string, lost: ReadonlySet<number>): Inventory {
  const devices = DEVICES.map((no) => ({
    uuid: `${hostname}-gpu-${no}`,
    model: 'NVIDIA RTX A5000',
    memoryBytes: 24n * 1024n ** 3n,
    healthy: !lost.has(no),
    problem: lost.has(no) ? 'lost' : '',
  }));
  return Inventory.fromPartial({ hostname, os: 'linux', arch: 'x64', cpuCount: 8, cpuModel: 'simulated', runtimes: ['thread'], devices });
}
