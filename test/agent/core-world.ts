/**
 * A world around the agent's core, without clocks or processes: it remembers what the core asked
 * for, answers when told to, and checks after each step what must always hold.
 */
import { isDeepStrictEqual } from 'node:util';

import type { CoreEvent, Effect, FromWorker } from '../../agent/core/events.ts';
import { attemptKey, newState, type AttemptKey, type State } from '../../agent/core/state.ts';
import { actualWorkers } from '../../agent/core/report.ts';
import { nextDeadline, step } from '../../agent/core/step.ts';
import type { AgentEvent, ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { releaseOf } from './release.ts';

export interface Host {
  readonly workerId: string;
  readonly start: number;
  readonly deviceUuids: readonly string[];
  asked: 'no' | 'gently' | 'force';
  tasks: Map<AttemptKey, 'handed' | 'entered'>;
  loaded: boolean;
}

/** A report of an attempt, by the worker that has it. */
type OfOwnWorker = WithoutWorker<Extract<CoreEvent, FromWorker>>;
type WithoutWorker<E> = E extends FromWorker ? Omit<E, 'workerId' | 'start'> : never;

export class World {
  readonly image: State = newState();
  readonly #twin: State = newState();
  now = 0;
  online = false;
  readonly hosts = new Map<string, Host>();
  readonly fetches: { readonly workerId: string; readonly start: number }[] = [];
  readonly inputs: AttemptKey[] = [];
  readonly outputs: AttemptKey[] = [];
  readonly chunks: { readonly key: AttemptKey; readonly index: number }[] = [];
  readonly reports: NonNullable<AgentEvent['event']>[] = [];
  /** Attempts that were ever handed to a host. */
  readonly ran = new Set<AttemptKey>();
  /** Chunks ever sent, of each attempt: nobody can have read more. */
  readonly sent = new Map<AttemptKey, number>();
  readonly violations: string[] = [];
  readonly credits = new Map<AttemptKey, number>();
  #startedInSession = new Set<AttemptKey>();
  #nextChunk = new Map<AttemptKey, number>();

  feed(given: CoreEvent | OfOwnWorker): Effect[] {
    const event = this.#withWorker(given);
    if (event.kind === 'welcome') {
      this.online = true;
      this.#startedInSession = new Set();
      this.#nextChunk = new Map();
    }
    if (event.kind === 'disconnected') this.online = false;
    if (event.kind === 'drained') {
      const key = attemptKey(event.drained.jobId, event.drained.token);
      const expected = this.#nextChunk.get(key);
      if (expected !== undefined) this.#nextChunk.set(key, Math.max(expected, event.drained.nextIndex));
    }
    const effects = step(this.image, event, this.now);
    const twin = step(this.#twin, event, this.now);
    if (!isDeepStrictEqual(effects, twin)) throw new Error(`not deterministic: ${event.kind}`);
    for (const effect of effects) this.#carryOut(effect);
    this.#check();
    return effects;
  }

  /** Lets time pass, with every tick that is due on the way. */
  pass(ms: number): void {
    const end = this.now + ms;
    for (let ticks = 0; ; ticks += 1) {
      if (ticks > 10_000) throw new Error('the core wants to be woken without end');
      const due = nextDeadline(this.image);
      if (due === undefined || due > end) break;
      this.now = Math.max(this.now, due);
      this.feed({ kind: 'tick' });
      const next = nextDeadline(this.image);
      if (next !== undefined && next <= this.now) throw new Error(`a tick at ${this.now} left a deadline at ${next}`);
    }
    this.now = end;
  }

  host(workerId: string): Host | undefined {
    return this.hosts.get(workerId);
  }

  /** The host of a worker is gone, with its tasks. */
  exit(workerId: string, hardStop = false, detail = 'died', culprit?: string): void {
    const host = this.hosts.get(workerId);
    if (host === undefined) return;
    this.hosts.delete(workerId);
    this.feed({ kind: 'exited', workerId, start: host.start, detail, hardStop, culprit });
  }

  /** Everything that was asked for is answered well, until nothing is left to answer. */
  settle(): void {
    for (let rounds = 0; rounds < 1_000; rounds += 1) {
      if (!this.#settleOne()) return;
    }
    throw new Error('the world does not settle');
  }

  #settleOne(): boolean {
    const fetch = this.fetches.shift();
    if (fetch !== undefined) return this.#did({ kind: 'artifact-ready', ...fetch, folder: '/build' });
    const input = this.inputs.shift();
    if (input !== undefined) return this.#did({ kind: 'input-ready', key: input, input: Buffer.from('{}') });
    const output = this.outputs.shift();
    if (output !== undefined) return this.#did({ kind: 'output-stored', key: output, output: { blob: { id: 'o', size: 1 } } });
    const chunk = this.chunks.shift();
    if (chunk !== undefined) return this.#did({ kind: 'chunk-stored', ...chunk, data: { blob: { id: 'c', size: 1 } } });
    for (const host of this.hosts.values()) {
      if (host.asked !== 'no') {
        this.exit(host.workerId, false, 'ended');
        return true;
      }
      if (!host.loaded) {
        host.loaded = true;
        return this.#did({ kind: 'loaded', workerId: host.workerId, start: host.start });
      }
      for (const [key, state] of host.tasks) {
        if (state === 'handed') {
          host.tasks.set(key, 'entered');
          return this.#did({ kind: 'handler-entered', key });
        }
        host.tasks.delete(key);
        return this.#did({ kind: 'handler-ended', key, result: { kind: 'returned', output: Buffer.from('1'), ms: 1 } });
      }
    }
    return false;
  }

  /** Reports of an attempt come from the worker that has it. */
  #withWorker(event: CoreEvent | OfOwnWorker): CoreEvent {
    if (!('key' in event) || 'workerId' in event) return event;
    const { workerId = '', start = 0 } = this.image.attempts.get(event.key) ?? {};
    return { ...event, workerId, start } as CoreEvent;
  }

  #did(event: CoreEvent | OfOwnWorker): true {
    this.feed(event);
    return true;
  }

  #carryOut(effect: Effect): void {
    switch (effect.kind) {
      case 'fetch-artifact':
        this.fetches.push({ workerId: effect.workerId, start: effect.start });
        break;
      case 'start-host':
        if (this.hosts.has(effect.workerId)) throw new Error(`${effect.workerId} has two hosts`);
        this.hosts.set(effect.workerId, {
          workerId: effect.workerId,
          start: effect.start,
          deviceUuids: effect.deviceUuids,
          asked: 'no',
          tasks: new Map(),
          loaded: false,
        });
        break;
      case 'end-host': {
        const host = this.hosts.get(effect.workerId);
        if (host === undefined || host.start !== effect.start) throw new Error('a host that is not there was ended');
        if (!effect.force && (this.image.workers.get(effect.workerId)?.attempts.size ?? 0) > 0) {
          throw new Error('a worker that holds an attempt was ended');
        }
        host.asked = effect.force ? 'force' : 'gently';
        break;
      }
      case 'run': {
        const host = this.hosts.get(effect.dispatch.workerId);
        if (host === undefined || !host.loaded || host.asked !== 'no') throw new Error('a task was given to a worker that cannot run it');
        if (this.ran.has(effect.key)) throw new Error(`${effect.key} ran twice`);
        this.ran.add(effect.key);
        host.tasks.set(effect.key, 'handed');
        break;
      }
      case 'fetch-input':
        this.inputs.push(effect.key);
        break;
      case 'store-output':
        this.outputs.push(effect.key);
        break;
      case 'store-chunk':
        this.chunks.push({ key: effect.key, index: effect.index });
        break;
      case 'credit':
        this.credits.set(effect.key, (this.credits.get(effect.key) ?? 0) + effect.count);
        break;
      case 'report':
        if (effect.event.event !== undefined) this.#onReport(effect.event.event);
        break;
      case 'violation':
        this.violations.push(effect.detail);
        break;
      case 'recall': {
        const tasks = this.hosts.get(effect.workerId)?.tasks;
        if (tasks?.get(effect.key) !== 'handed') break;
        tasks.delete(effect.key);
        this.feed({ kind: 'handler-ended', key: effect.key, result: { kind: 'stopped', ms: 0 } });
        break;
      }
      case 'cancel':
      case 'forget':
        break;
      default:
        throw new Error('unknown effect');
    }
  }

  #onReport(event: NonNullable<AgentEvent['event']>): void {
    this.reports.push(event);
    if (event.$case === 'refused') return;
    if (!this.online) throw new Error(`${event.$case} was reported without a session`);
    if (event.$case === 'started') this.#startedInSession.add(attemptKey(event.value.jobId, event.value.token));
    if (event.$case === 'ended') {
      const key = attemptKey(event.value.jobId, event.value.token);
      if (event.value.started && !this.#startedInSession.has(key)) throw new Error(`${key} ended before it was said to have started`);
      const sent = this.#nextChunk.get(key);
      if (sent !== undefined && sent !== event.value.chunks) throw new Error(`${key} ended with chunks unsent`);
    }
    if (event.$case === 'chunk') {
      const key = attemptKey(event.value.jobId, event.value.token);
      const expected = this.#nextChunk.get(key);
      // The first one of a session is where the reader stands; a drain may skip ahead.
      if (expected !== undefined && event.value.index < expected)
        throw new Error(`${key} sent chunk ${event.value.index} after ${expected - 1}`);
      this.#nextChunk.set(key, event.value.index + 1);
      this.sent.set(key, Math.max(this.sent.get(key) ?? 0, event.value.index + 1));
    }
  }

  #check(): void {
    const { image } = this;
    for (const worker of image.workers.values()) {
      const slots = Math.max(1, worker.release.maxConcurrency);
      if (worker.attempts.size > slots) throw new Error(`${worker.id} holds ${worker.attempts.size} attempts in ${slots} slots`);
      for (const key of worker.attempts) if (!image.attempts.has(key)) throw new Error(`${worker.id} holds ${key}, which is not there`);
    }
    const devices = [...this.hosts.values()].flatMap(({ deviceUuids }) => deviceUuids);
    if (new Set(devices).size !== devices.length) throw new Error(`a device is given out twice: ${devices.join(' ')}`);
    for (const worker of image.workers.values()) {
      if (worker.phase === 'ready' && !this.hosts.has(worker.id)) throw new Error(`${worker.id} is ready without a host`);
    }
    for (const host of this.hosts.values()) {
      if (!image.workers.has(host.workerId)) throw new Error(`the host of ${host.workerId} is nobody's`);
    }
    const ids = actualWorkers(image).workers.map(({ workerId }) => workerId);
    if (new Set(ids).size !== ids.length) throw new Error('a worker is reported twice');
  }
}

export function release(values: Partial<ReleaseSpec> = {}): ReleaseSpec {
  return releaseOf({ buildDigest: 'd', buildSize: 1, startTimeoutMs: 10_000, ...values });
}
