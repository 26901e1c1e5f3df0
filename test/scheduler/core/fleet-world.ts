/**
 * The scheduler's core and commit loop over a fleet that a test plays: everything is committed at once, agents do what the
 * test says. The store has control rows alone.
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { AttemptOutcome, Inventory, RefusalReason, WorkerStatus, type AgentEvent } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../../lib/errors.ts';
import { StepResult, type CommandResult, type Effect } from '../../../scheduler/core/effects.ts';
import type { AuditEntry } from '../../../scheduler/core/audit.ts';
import type { Command, CoreEvent } from '../../../scheduler/core/events.ts';
import type { State } from '../../../scheduler/core/state.ts';
import type { EndpointRecord, EndpointInput } from '../../../scheduler/core/state/endpoints.ts';
import type { WorkerRecord } from '../../../scheduler/core/state/fleet.ts';
import type { Now } from '../../../scheduler/core/now.ts';
import { defaultSettings, type Settings } from '../../../scheduler/core/settings.ts';
import { restore } from '../../../scheduler/core/step/restore.ts';
import { nextDeadline, step } from '../../../scheduler/core/step/step.ts';
import { CommitLoop } from '../../../scheduler/engine/commit-loop.ts';
import { workerCounts, type WorkerCounts } from '../../../scheduler/core/scaling/worker-counts.ts';
import type { ControlRow, Op, Outcome, StoreEngine } from '../../../scheduler/core/ports/store.ts';
import { CallbackQueue, instantStore, timerlessClock } from '../../support/instant-loop.ts';

/** A job that was handed out and has not ended. */
export interface Running {
  readonly job: string;
  readonly token: number;
  readonly worker: string;
  readonly node: string;
}

export class FleetWorld {
  image: State;
  /** Monotonic ms; the wall clock goes with it. */
  mono = 0;
  readonly running: Running[] = [];
  readonly effects: Effect[] = [];
  /** Entries of the audit log. */
  readonly audited: (AuditEntry & { readonly at: number })[] = [];
  readonly #settings: Settings;
  readonly #rows = new Map<string, ControlRow>();
  readonly #callbacks = new CallbackQueue();
  #loop: CommitLoop;
  readonly #reported = new Map<string, Map<string, WorkerStatus>>();
  #calls = 0;
  /** Each life of the scheduler has names of its own. */
  #life = 0;
  #session = 0;
  #jobs = 0;

  constructor(settings: Partial<Settings> = {}) {
    this.#settings = { ...defaultSettings, ...settings };
    [this.image, this.#loop] = this.#takeOver();
    this.#callbacks.drain();
    this.command({ kind: 'put-join-token', hash: 't' });
  }

  /** A scheduler that starts anew on what was written. Jobs are not part of this. */
  restart(): void {
    this.#loop.stop();
    [this.image, this.#loop] = this.#takeOver();
    this.#callbacks.drain();
  }

  event(event: CoreEvent): void {
    this.#loop.handle(event);
    this.#callbacks.drain();
  }

  now(): Now {
    return { wall: 1_700_000_000_000 + this.mono, mono: this.mono };
  }

  command(command: Command, audit: AuditEntry | null = null): CommandResult | CapstanError {
    const call = ++this.#calls;
    this.event({ kind: 'command', call, command, audit });
    const answer = this.effects.find((effect) => effect.kind === 'command-result' && effect.call === call);
    if (answer?.kind !== 'command-result') throw new Error('no answer');
    return answer.result;
  }

  deploy(...endpoints: EndpointInput[]): string[] {
    const build = 'd';
    this.command({ kind: 'put-build', account: 'acc', digest: build, size: 1 });
    const answer = this.command({ kind: 'deploy', account: 'acc', environment: 'default', build, endpoints });
    if (answer instanceof Error) throw answer;
    return answer.kind === 'deployed' ? answer.endpoints.map(({ id }) => id) : [];
  }

  /** A node joins and connects. */
  node(name: string, devices: readonly string[] = [], more: Partial<Inventory> = {}): void {
    this.command({ kind: 'join', tokenHash: 't', node: { id: name, name, secretHash: '' } });
    this.connect(name, devices, more);
  }

  connect(name: string, devices: readonly string[] = [], more: Partial<Inventory> = {}): void {
    const inventory = Inventory.fromPartial({
      hostname: name,
      cpuCount: 64,
      memoryBytes: 512_000_000_000n,
      memoryAvailableBytes: 512_000_000_000n,
      diskAvailableBytes: 512_000_000_000n,
      runtimes: ['thread'],
      devices: devices.map((uuid) => ({ uuid, model: 'NVIDIA RTX A5000', memoryBytes: 24_000_000_000n, healthy: true })),
      ...more,
    });
    const workers = { epoch: this.image.nodes.get(name)?.epoch ?? 0, workers: [...(this.#reported.get(name)?.values() ?? [])] };
    const hello = { protocol: 1, incarnation: `${name}-1`, agentVersion: 'test', workers, attempts: [], inventory };
    this.event({ kind: 'session-opened', node: name, session: ++this.#session, hello });
  }

  /** The node's agent tells another inventory. */
  inventory(name: string, change: (inventory: Inventory) => Inventory): void {
    const known = this.image.nodes.get(name)?.inventory;
    if (known != null) this.#agent(name, { event: { $case: 'inventory', value: change(known) } });
  }

  disconnect(name: string): void {
    const session = this.image.nodes.get(name)?.session;
    if (session != null) this.event({ kind: 'session-closed', node: name, session });
  }

  /** Lets time pass; whatever is due happens. */
  pass(ms: number): void {
    const until = this.mono + ms;
    for (;;) {
      const at = nextDeadline(this.image, this.now());
      this.mono = at === null ? until : Math.min(until, Math.max(this.mono, at));
      for (const node of this.image.nodes.values())
        if (node.session !== null)
          this.event({
            kind: 'agent',
            node: node.config.id,
            session: node.session,
            events: [{ event: { $case: 'heartbeat', value: {} } }],
          });
      this.event({ kind: 'tick' });
      if (this.mono >= until) return;
      if (at !== null && at <= this.mono) this.mono += 0.01;
    }
  }

  submit(endpoint: string, lowPriority = false): string {
    const job = `job-${++this.#jobs}`;
    this.event({
      kind: 'submit',
      ref: { channel: 1, request: this.#jobs },
      counting: { limitedAs: null, resent: false },
      endpoint,
      job,
      jobKind: 'RUN',
      input: { inline: Buffer.from('{}') },
      webhook: null,
      trace: null,
      tags: null,
      policy: { executionTimeoutMs: null, ttlMs: null, lowPriority },
      s3: null,
      idempotency: null,
      waitMs: 0,
    });
    return job;
  }

  cancel(endpoint: string, job: string): void {
    this.command({ kind: 'cancel', endpoint, job });
  }

  /** A job is out of time, and its handler goes on; the answer says that the handler has ended. */
  timeOut(job: string): () => void {
    const running = this.running.find((each) => each.job === job);
    if (running === undefined) throw new Error(`${job} does not run`);
    const facts = {
      jobId: job,
      token: running.token,
      error: 'executionTimeout exceeded',
      executionMs: 1,
      agoMs: 0,
      chunks: 0,
      started: true,
    };
    const tell = (slotHeld: boolean): void =>
      this.#agent(running.node, { event: { $case: 'ended', value: { ...facts, outcome: AttemptOutcome.TIMED_OUT, slotHeld } } });
    tell(true);
    return () => {
      this.running.splice(this.running.indexOf(running), 1);
      tell(false);
      this.#reap(running.node);
    };
  }

  /** The handler of a job returns. */
  complete(job: string): void {
    const ended = this.#take(job);
    const facts = { jobId: job, token: ended.token, error: '', executionMs: 1, agoMs: 0, chunks: 0, started: true, slotHeld: false };
    this.#agent(ended.node, {
      event: {
        $case: 'ended',
        value: { ...facts, outcome: AttemptOutcome.COMPLETED, output: { body: { $case: 'inline', value: Buffer.from('1') } } },
      },
    });
    this.#reap(ended.node);
  }

  /** The worker of a job, whose handler was entered, dies. `suspected`: others were running there. */
  lose(job: string, suspected: boolean): void {
    const ended = this.#take(job);
    const facts = { jobId: job, token: ended.token, error: 'it died', executionMs: 1, agoMs: 0, chunks: 0, started: true, slotHeld: false };
    this.#agent(ended.node, { event: { $case: 'ended', value: { ...facts, outcome: AttemptOutcome.WORKER_LOST, suspected } } });
  }

  /** The handler of a job was entered. */
  enter(job: string): void {
    const running = this.running.find((each) => each.job === job);
    if (running === undefined) throw new Error(`${job} does not run`);
    this.#agent(running.node, { event: { $case: 'started', value: { jobId: job, token: running.token, agoMs: 0 } } });
  }

  /** Attempts that agents were told to return, and return. */
  giveBack(): string[] {
    const recalled: string[] = [];
    for (const effect of this.effects.splice(0)) {
      const event = effect.kind === 'send' ? effect.event.event : undefined;
      if (event?.$case !== 'recall') continue;
      const { jobId, token } = event.value;
      recalled.push(jobId);
      const { node } = this.#take(jobId);
      this.#agent(node, { event: { $case: 'refused', value: { jobId, token, reason: RefusalReason.STOPPED, detail: '' } } });
    }
    return recalled;
  }

  /** The handler of a job was entered; then a neighbour of it ended their worker. */
  disturb(job: string): void {
    const { node, token } = this.#take(job);
    this.#agent(node, { event: { $case: 'started', value: { jobId: job, token, agoMs: 0 } } });
    const reason = RefusalReason.NEIGHBOUR_STOPPED;
    this.#agent(node, { event: { $case: 'refused', value: { jobId: job, token, reason, detail: 'another job ended the worker' } } });
  }

  #take(job: string): Running {
    const at = this.running.findIndex((running) => running.job === job);
    const [taken] = this.running.splice(at, 1);
    if (at === -1 || taken === undefined) throw new Error(`${job} does not run`);
    return taken;
  }

  workers(endpoint: string): WorkerRecord[] {
    return [...this.image.workers.values()].filter((worker) => worker.endpoint === endpoint);
  }

  staying(endpoint: string): WorkerRecord[] {
    return this.workers(endpoint).filter((worker) => !worker.drain);
  }

  endpoint(id: string): EndpointRecord {
    const endpoint = this.image.endpoints.get(id);
    if (endpoint === undefined) throw new Error(`no endpoint ${id}`);
    return endpoint;
  }

  counts(id: string): WorkerCounts {
    return workerCounts(this.image, this.endpoint(id));
  }

  /** Every worker that was asked for and has not started becomes ready; drained ones without jobs are gone. */
  settle(): void {
    for (const worker of [...this.image.workers.values()]) if (!worker.drain && !worker.ready) this.ready(worker.id);
    this.reap();
  }

  /** Drained workers without jobs are gone. */
  reap(): void {
    for (const node of this.image.nodes.keys()) this.#reap(node);
  }

  ready(worker: string): void {
    this.report(worker, { state: WorkerState.IDLE, artifactMs: 5, startedMs: 10, loadedMs: 20 });
  }

  /** Every worker of a node is ready, told at once. */
  readyAll(node: string): void {
    const all = [...(this.image.nodes.get(node)?.workers ?? [])].flatMap((id) => this.image.workers.get(id) ?? []);
    const statuses = all.map(({ id, endpoint, release }) =>
      WorkerStatus.fromPartial({ workerId: id, endpointId: endpoint, releaseId: release, state: WorkerState.IDLE }),
    );
    this.#reported.set(node, new Map(statuses.map((status) => [status.workerId, status])));
    this.#tellWorkers(node);
  }

  /** A start of the worker failed, the `failures`-th in a row. */
  fail(worker: string, failures: number): void {
    this.report(worker, { state: WorkerState.UNHEALTHY, reason: 'LOAD_FAILED', detail: 'no module named x', failures });
  }

  report(id: string, status: Partial<WorkerStatus>): void {
    const worker = this.image.workers.get(id);
    if (worker === undefined) throw new Error(`no worker ${id}`);
    const all = this.#reported.get(worker.node) ?? new Map<string, WorkerStatus>();
    this.#reported.set(worker.node, all);
    all.set(
      id,
      WorkerStatus.fromPartial({ ...all.get(id), workerId: id, endpointId: worker.endpoint, releaseId: worker.release, ...status }),
    );
    this.#tellWorkers(worker.node);
  }

  /** The agent ends drained workers that hold nothing. */
  #reap(node: string): void {
    const all = this.#reported.get(node) ?? new Map<string, WorkerStatus>();
    for (const id of [...all.keys()]) {
      const worker = this.image.workers.get(id);
      if ((worker === undefined || worker.drain) && !this.running.some((running) => running.worker === id)) all.delete(id);
    }
    this.#tellWorkers(node);
  }

  #tellWorkers(node: string): void {
    const workers = [...(this.#reported.get(node)?.values() ?? [])];
    this.#agent(node, { event: { $case: 'workers', value: { epoch: this.image.nodes.get(node)?.epoch ?? 0, workers } } });
  }

  #agent(node: string, event: AgentEvent): void {
    const session = this.image.nodes.get(node)?.session;
    if (session != null) this.event({ kind: 'agent', node, session, events: [event] });
  }

  #takeOver(): [State, CommitLoop] {
    const decided = new StepResult();
    const stored = { control: [...this.#rows.values()], counts: [], leased: [], highest: { seq: 0, queuePosition: 0 }, bodies: [] };
    const state = restore({ settings: this.#settings, random: [1, 2, 3, ++this.#life], diskRefusal: null }, stored, this.now(), decided);
    const store: Omit<StoreEngine, 'close'> = {
      commit: (_fence, ops) => ops.map((op) => this.#write(op)),
      read: () => raise(new Error('effects that read are not carried out')),
      acquire: () => raise(new Error('the test takes over')),
    };
    const loop: CommitLoop = new CommitLoop(
      {
        state,
        step,
        store: instantStore(store, this.#callbacks),
        fence: { cell: 0, term: 1n },
        clock: timerlessClock(() => this.now(), this.#callbacks),
        sink: { committed: () => undefined, perform: (effect) => this.#perform(loop, effect), failed: raise, broken: raise },
      },
      decided,
    );
    return [state, loop];
  }

  #write(op: Op): Outcome {
    if (op.kind !== 'put') return { kind: 'ok' };
    const { rowKind, key, version, value } = op;
    if (value === null) this.#rows.delete(`${rowKind}/${key}`);
    else if (rowKind === 'audit') this.audited.push(JSON.parse(value) as AuditEntry & { readonly at: number });
    else this.#rows.set(`${rowKind}/${key}`, { kind: rowKind, key, version, value });
    return { kind: 'ok' };
  }

  #perform(loop: CommitLoop, effect: Effect): void {
    this.effects.push(effect);
    if (effect.kind === 'dispatch') {
      const { job, token, worker, node } = effect;
      this.running.push({ job, token, worker, node });
    } else if (effect.kind === 'read-due') loop.handle({ kind: 'due-read', jobs: [], nextAt: null, wall: 0 });
  }
}

function raise(error: unknown): never {
  throw error;
}
