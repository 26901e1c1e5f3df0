/**
 * A scheduler process in the simulated world: the real core on the real SQLite engine, with a
 * shell that commits after a delay and may crash before the batch is applied, or after it was and
 * before anyone learnt the outcome.
 */
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import { StepResult, type Answer, type Effect, type Pending, type Write } from '../../scheduler/core/effects.ts';
import type { Command, CoreEvent } from '../../scheduler/core/events.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { WorkerRecord } from '../../scheduler/core/state/fleet.ts';
import { defaultSettings, type Settings } from '../../scheduler/core/settings.ts';
import { restore } from '../../scheduler/core/restore.ts';
import { nextDeadline, step } from '../../scheduler/core/step.ts';
import { dropBelow } from '../../scheduler/core/jobs/streams.ts';
import { controlKinds, type HookRow, type Op, type Outcome } from '../../scheduler/store/store.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import type { World } from './world.ts';

/** Faults put in on purpose, to see that the checks notice them. */
export type Mutation =
  /** Effects leave before the commit that caused them. */
  | 'answer-before-commit'
  /** A requeue changes the state, but is not written. */
  | 'forget-requeue'
  /** A try of a webhook is known to the state, but not written. */
  | 'forget-try'
  /** A result counts whatever its token. */
  | 'ignore-token'
  /** Chunks are dropped as soon as they were answered. */
  | 'drop-on-answer'
  /** A slot is taken for free as soon as its job has ended on paper. */
  | 'free-slot-on-paper'
  /** Old workers take whatever comes until a new one is ready. */
  | 'old-code'
  /** The workers of a drained node stay. */
  | 'keep-drained'
  /** Deployments are known to the state, but not written. */
  | 'forget-deployment'
  /** A removed endpoint takes calls again. */
  | 'revive'
  /** The quota is not looked at. */
  | 'no-quota'
  /** A rollback does not know the newest deployment with another build. */
  | 'skip-a-build'
  /** A purge is answered when its first jobs have ended. */
  | 'purge-less'
  /** A webhook secret that is replaced signs no more. */
  | 'forget-secret';

type Dispatch = Extract<Effect, { kind: 'dispatch' }>;

/** Where a scheduler's effects go. */
export interface Wiring {
  reply(channel: number, reply: JobReply): void;
  send(node: string, session: number, event: SchedulerEvent): void;
  sendDesired(node: string, session: number, epoch: number, workers: readonly WorkerRecord[]): void;
  sendJob(effect: Dispatch, input: string): void;
  closeSession(node: string, session: number): void;
  /** Posts a webhook; `tell` when that is over. */
  post(hook: HookRow, tell: (event: CoreEvent) => void): void;
  /** Every operation and its outcome, as the store took them. */
  observe(op: Op, outcome: Outcome): void;
  /** After each step. */
  check(state: State): void;
  crashed(): void;
}

export class SimScheduler {
  readonly settings: Settings;
  readonly store: SqliteEngine;
  readonly #world: World;
  readonly #wiring: Wiring;
  readonly #calls = new Map<number, (result: Answer | Error) => void>();
  image: State | null = null;
  #term = 0n;
  #gathering = new StepResult();
  #life = 0;
  #busy = false;
  #flushing = false;
  #nextCall = 1;
  #timer = Number.POSITIVE_INFINITY;
  /** Chance that a commit crashes the process. */
  crashRate = 0;
  mutation: Mutation | null = null;

  constructor(world: World, wiring: Wiring, settings: Partial<Settings> = {}) {
    this.#world = world;
    this.#wiring = wiring;
    this.settings = { ...defaultSettings, ...settings };
    this.store = new SqliteEngine({ file: ':memory:', now: () => world.clock().wall });
  }

  start(): void {
    this.#life++;
    this.#term = (this.store.acquire(0, `life-${this.#life}`, 10_000) as { term: bigint }).term;
    const control = controlKinds.flatMap((kind) => this.store.read('control', kind, '', 1_000));
    const stored = {
      control,
      counts: this.store.read('counts'),
      leased: this.store.read('leased', 0, 10_000),
      highest: this.store.read('highest'),
      bodies: this.store.read('bodyUsage'),
    };
    this.#gathering = new StepResult();
    this.#busy = false;
    this.#flushing = false;
    this.#timer = Number.POSITIVE_INFINITY;
    const seed = this.#world.random.int(1, 2 ** 31);
    const settings = this.mutation === 'no-quota' ? { ...this.settings, workerQuota: 1_000 } : this.settings;
    this.image = restore(settings, [seed, 2, 3, this.#life], stored, this.#world.clock(), this.#gathering);
    this.#world.trace('scheduler started');
    this.#schedule();
    this.#rearm();
  }

  crash(): void {
    if (this.image === null) return;
    this.#life++;
    this.image = null;
    for (const answer of this.#calls.values()) answer(new Error('crashed'));
    this.#calls.clear();
    this.#world.trace('scheduler crashed');
    this.#wiring.crashed();
  }

  /** Nothing is gathered or being committed. */
  get quiet(): boolean {
    return !this.#busy && this.#gathering.writes.length === 0 && this.#gathering.effects.length === 0;
  }

  handle(event: CoreEvent): void {
    if (this.image === null) return;
    const restore =
      this.mutation === 'old-code'
        ? withoutBoundaries(this.image)
        : this.mutation === 'skip-a-build'
          ? withoutABuild(this.image, event)
          : null;
    if (this.mutation === 'forget-secret') forgetSecret(this.image, event);
    step(this.image, this.#mutated(event, this.image), this.#world.clock(), this.#gathering);
    restore?.();
    if (this.mutation === 'free-slot-on-paper') freeOnPaper(this.image);
    if (this.mutation === 'keep-drained') keepDrained(this.image);
    if (this.mutation === 'drop-on-answer') dropAnswered(this.image);
    if (this.mutation === 'revive') revive(this.image);
    if (this.mutation === 'purge-less') for (const { purge } of this.image.endpoints.values()) if (purge !== null) purge.upTo = 0;
    this.#wiring.check(this.image);
    this.#schedule();
  }

  command(command: Command, then: (result: Answer | Error) => void): void {
    if (this.image === null) {
      then(new Error('down'));
      return;
    }
    const call = this.#nextCall++;
    this.#calls.set(call, then);
    this.handle({ kind: 'command', call, command });
  }

  #later(delay: number, run: () => void): void {
    const life = this.#life;
    this.#world.after(delay, () => {
      if (life === this.#life) run();
    });
  }

  #schedule(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    this.#later(0, () => this.#flush());
  }

  #flush(): void {
    const { writes, effects } = this.#gathering;
    if (writes.length === 0 && effects.length === 0) {
      this.#flushing = false;
      this.#rearm();
      return;
    }
    this.#gathering = new StepResult();
    this.#busy = true;
    if (this.mutation === 'answer-before-commit') for (const { effect } of effects.splice(0)) this.#perform(effect);
    if (writes.length === 0) this.#after(effects, null);
    else this.#later(0.1 + this.#world.random.next() * 3, () => this.#commit(writes, effects));
  }

  #commit(writes: readonly Write[], effects: readonly Pending[]): void {
    if (this.#world.random.chance(this.crashRate / 2)) {
      this.crash();
      return;
    }
    const forgotten = this.mutation === 'forget-requeue' ? 'requeue' : this.mutation === 'forget-try' ? 'hook' : null;
    const kept = writes.filter(
      ({ op }) => op.kind !== forgotten && !(this.mutation === 'forget-deployment' && op.kind === 'put' && op.rowKind === 'deployment'),
    );
    const outcomes = this.store.commit(
      { shard: 0, term: this.#term },
      kept.map((write) => write.op),
    );
    kept.forEach((write, i) => this.#wiring.observe(write.op, outcomes[i] as Outcome));
    if (this.#world.random.chance(this.crashRate / 2)) {
      this.crash();
      return;
    }
    this.#later(0.05, () => {
      const refused = new Set<Write>();
      kept.forEach((write, i) => {
        const outcome = outcomes[i] as Outcome;
        if (outcome.kind === 'ok' || this.image === null) return;
        refused.add(write);
        step(this.image, { kind: 'refused', op: write.op, outcome, cause: write.cause }, this.#world.clock(), this.#gathering);
      });
      this.#after(effects, refused);
    });
  }

  #after(effects: readonly Pending[], refused: ReadonlySet<Write> | null): void {
    for (const { effect, write } of effects) {
      if (write !== null && refused?.has(write) === true) continue;
      this.#perform(effect);
      if (this.image === null) return;
    }
    this.#busy = false;
    this.#flush();
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case 'reply':
        if (effect.usage !== null) effect.usage.open--;
        return this.#wiring.reply(effect.channel, effect.reply);
      case 'answer': {
        const then = this.#calls.get(effect.call);
        this.#calls.delete(effect.call);
        return then?.(effect.result);
      }
      case 'send':
        return this.#wiring.send(effect.node, effect.session, effect.event);
      case 'send-desired':
        return this.#wiring.sendDesired(effect.node, effect.session, effect.epoch, effect.workers);
      case 'dispatch':
        return this.#dispatch(effect);
      case 'close-session':
        return this.#wiring.closeSession(effect.node, effect.session);
      // Reads see what is committed now; their answers come later.
      case 'read-job': {
        const found = this.store.read('job', effect.endpoint, effect.job);
        return this.#later(this.#world.random.next() * 4, () => this.handle({ kind: 'job-read', purpose: effect.purpose, found }));
      }
      case 'read-head': {
        const rows = this.store.read('head', effect.endpoint, effect.priority, effect.after, effect.limit, 1_000);
        return this.#later(this.#world.random.next() * 4, () => this.handle({ ...effect, kind: 'head-read', rows }));
      }
      case 'read-due': {
        const { wall } = this.#world.clock();
        const due = this.store.read('due', wall, effect.limit);
        return this.#later(this.#world.random.next() * 4, () => this.handle({ kind: 'due-read', ...due, wall }));
      }
      case 'read-hooks': {
        const { skipHosts, skipIds, perHost, limit } = effect;
        const { hooks, nextAt } = this.store.read('hooks', this.#world.clock().wall, skipHosts, skipIds, perHost, limit);
        return this.#later(this.#world.random.next() * 4, () => this.handle({ kind: 'hooks-read', hooks, nextAt, limit }));
      }
      case 'deliver':
        return this.#later(this.#world.random.next() * 2, () => this.#deliver(effect.id));
      case 'drop-bodies':
      case 'worker-started':
      case 'directory':
      case 'log':
    }
  }

  #deliver(id: string): void {
    const hook = this.store.read('hook', id);
    const life = this.#life;
    if (hook === null) this.handle({ kind: 'hook-tried', id, result: 'gone' });
    else
      this.#wiring.post(hook, (event) => {
        if (life === this.#life) this.handle(event);
      });
  }

  #dispatch(effect: Dispatch): void {
    const payload = this.store.read('payload', effect.seq);
    this.#later(this.#world.random.chance(0.5) ? 0 : this.#world.random.next() * 4, () => {
      const job = this.image?.jobs.get(effect.job);
      const stands = job !== undefined && job.token === effect.token && job.lease !== null;
      if (stands && payload !== null && 'inline' in payload.input)
        this.#wiring.sendJob(effect, Buffer.from(payload.input.inline).toString());
      else this.handle({ kind: 'undelivered', node: effect.node, job: effect.job, token: effect.token, worker: effect.worker });
    });
  }

  #mutated(event: CoreEvent, state: State): CoreEvent {
    if (this.mutation !== 'ignore-token' || event.kind !== 'agent') return event;
    const report = event.events[0]?.event;
    const job = report?.$case === 'ended' ? state.jobs.get(report.value.jobId) : undefined;
    const session = state.nodes.get(job?.lease?.node ?? '')?.session ?? null;
    if (report?.$case !== 'ended' || job?.lease == null || session === null) return event;
    const forged = { event: { $case: 'ended', value: { ...report.value, token: job.token } } } as const;
    return { ...event, node: job.lease.node, session, events: [forged] };
  }

  #rearm(): void {
    if (this.image === null) return;
    const at = nextDeadline(this.image, this.#world.clock());
    if (at === null || (this.#timer <= at && this.#timer > this.#world.now)) return;
    this.#timer = Math.max(at, this.#world.now);
    const armed = this.#timer;
    this.#later(Math.max(0, at - this.#world.now), () => {
      if (this.#timer !== armed) return;
      this.#timer = Number.POSITIVE_INFINITY;
      this.handle({ kind: 'tick' });
      this.#rearm();
    });
  }
}

function freeOnPaper(state: State): void {
  for (const worker of state.workers.values()) {
    for (const [key, { job }] of worker.attempts) if (!state.jobs.has(job)) worker.attempts.delete(key);
  }
}

function dropAnswered(state: State): void {
  for (const [id, { token, next }] of state.handed) {
    const job = state.jobs.get(id);
    if (job?.token === token) dropBelow(state, job, next);
  }
}

function keepDrained(state: State): void {
  for (const worker of state.workers.values()) if (state.nodes.get(worker.node)?.config.draining === true) worker.drain = false;
}

/** For one step, no job is too new for an old worker; gives what puts the boundaries back. */
function withoutBoundaries(state: State): () => void {
  const kept = [...state.endpoints.values()].map((endpoint) => ({ endpoint, config: endpoint.config }));
  const opened = new Map(kept.map(({ endpoint, config }) => [endpoint, { ...config, releaseFrom: Number.MAX_SAFE_INTEGER }]));
  for (const [endpoint, config] of opened) endpoint.config = config;
  return () => {
    for (const { endpoint, config } of kept) if (endpoint.config === opened.get(endpoint)) endpoint.config = config;
  };
}

function revive(state: State): void {
  for (const endpoint of state.endpoints.values()) {
    const { removing, ...config } = endpoint.config;
    if (removing !== undefined) endpoint.config = config;
  }
}

/** For the step of a rollback, the newest deployments with another build than the present one are not there. */
function withoutABuild(state: State, event: CoreEvent): (() => void) | null {
  if (event.kind !== 'command' || event.command.kind !== 'rollback') return null;
  const kept = new Map(state.deployments);
  for (const [key, history] of kept) {
    const builds = [...new Set(history.toReversed().flatMap(({ endpoints }) => endpoints.map(({ build }) => build)))];
    state.deployments.set(
      key,
      history.filter(({ endpoints }) => endpoints.every(({ build }) => build !== builds[1])),
    );
  }
  return () => {
    for (const [key, history] of kept) {
      const added = (state.deployments.get(key) ?? []).filter((row) => !history.includes(row));
      state.deployments.set(key, [...history, ...added]);
    }
  };
}

function forgetSecret(state: State, event: CoreEvent): void {
  if (event.kind !== 'command' || event.command.kind !== 'rotate-webhook-secret') return;
  const row = state.accounts.get(event.command.account);
  if (row !== undefined) state.accounts.set(event.command.account, { ...row, webhookSecretSealed: null });
}
