/**
 * Runs the core's effects, for one life of the state: sends messages to the ports, reads from the store for the core,
 * and feeds the results back. It also keeps the inputs of jobs that will be dispatched soon, and requests counts of
 * bodies after batches that may have changed them.
 */
import { assertNever, type CapstanError } from '../../lib/errors.ts';
import { inlineBytes, MAX_INLINE_BYTES, type Payload } from '../../lib/payload.ts';
import type { CommandResult, Effect, Write } from '../core/effects.ts';
import type { CoreEvent } from '../core/events.ts';
import type { State } from '../core/state.ts';
import { isDamaged } from '../core/ports/stored-payload.ts';
import type { JobRow, Outcome, Reads } from '../core/ports/store.ts';
import { BodyCount } from './body-count.ts';
import type { Clock } from './clock.ts';
import type { LoopStore } from './loop-store.ts';
import type { PayloadCache } from './payload-cache.ts';
import type { DispatchEffect, Ports } from './ports.ts';

export interface EffectRunnerOptions {
  readonly state: State;
  readonly store: LoopStore;
  readonly clock: Clock;
  readonly ports: Ports;
  readonly inputs: PayloadCache;
  /** Feeds an event to the core. */
  readonly feed: (event: CoreEvent) => void;
  /** Runs it under a confirmed term, now or later; see {@link CommitLoop.whenConfirmed}. */
  readonly whenConfirmed: (run: () => void) => void;
  /** Ends a unary call. */
  readonly answer: (call: number, result: CommandResult | CapstanError) => void;
  readonly log: (line: Extract<Effect, { kind: 'log' }>) => void;
  /** A read failed. */
  readonly failed: (error: unknown) => void;
}

export class EffectRunner {
  readonly #options: EffectRunnerOptions;
  readonly #bodies: BodyCount;
  #stopped = false;

  constructor(options: EffectRunnerOptions) {
    this.#options = options;
    this.#bodies = new BodyCount({
      clock: options.clock,
      read: (done) => this.#read('bodyUsage', [], done),
      counted: (stored, settled) => options.feed({ kind: 'bodies-counted', stored, settled }),
    });
  }

  /** Ignores the results of open reads: the state is dropped. */
  stop(): void {
    this.#stopped = true;
    this.#bodies.stop();
  }

  /** Keeps the inputs of stored jobs, and drops those of ended jobs. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[]): void {
    const { state, inputs, ports } = this.#options;
    for (const [i, { op }] of writes.entries()) {
      const outcome = outcomes[i];
      if (op.kind === 'finish' || op.kind === 'delete') inputs.delete(op.seq);
      if (outcome !== undefined && outcome.kind !== 'ok') continue;
      if (outcome?.dropped !== undefined) ports.dropBodies(outcome.dropped);
      // Only now is it certain that the job exists: a repeated submission has a number that no job gets.
      if (op.kind === 'submit') this.#keep(op.job, op.input);
    }
    this.#bodies.committed(writes, state.bodyUse.size > 0);
  }

  /** Runs one effect. */
  perform(effect: Effect): void {
    const { ports, state, feed } = this.#options;
    switch (effect.kind) {
      case 'reply':
        return ports.reply(effect.channel, effect.reply);
      case 'command-result':
        return this.#options.answer(effect.call, effect.result);
      case 'send':
        return ports.send(effect.node, effect.session, effect.event);
      case 'send-desired':
        return ports.sendDesired(effect, state);
      case 'dispatch':
        return this.#dispatch(effect);
      case 'wait-ended':
        return ports.waitEnded(effect);
      case 'close-session':
        return ports.closeSession(effect.node, effect.session, effect.reason);
      case 'read-job':
        return this.#read('job', [effect.endpoint, effect.job], (found) => feed({ kind: 'job-read', purpose: effect.purpose, found }));
      case 'read-head':
        return this.#readHead(effect);
      case 'read-due': {
        const { wall } = this.#options.clock.now();
        return this.#read('due', [wall, effect.limit], ({ jobs, nextAt }) => feed({ kind: 'due-read', jobs, nextAt, wall }));
      }
      case 'read-deliveries': {
        const { skipHosts, skipIds, perHost, limit } = effect;
        const { wall } = this.#options.clock.now();
        return this.#read('deliveries', [{ wall, skipHosts, skipIds, perHost, limit }], ({ deliveries, nextAt }) =>
          feed({ kind: 'deliveries-read', deliveries, nextAt, limit }),
        );
      }
      case 'drop-bodies':
        return ports.dropBodies(effect.blobs);
      case 'deliver':
        return ports.deliver(effect.id);
      case 'worker-started':
        return ports.workerStarted(effect);
      case 'directory':
        return ports.directory(effect.update);
      case 'log':
        return this.#options.log(effect);
      default:
        return assertNever(effect);
    }
  }

  /**
   * Keeps the input of a job in the state, so that its dispatch needs no read. Every job that leaves the state is ended
   * or deleted by an operation with its number, which removes the input again.
   */
  #keep({ id, seq, hasS3 }: JobRow, input: Payload): void {
    // A job with credentials is read at its dispatch: credentials are kept, encrypted, only in the store.
    if (hasS3 || this.#options.state.jobs.get(id)?.seq !== seq) return;
    if (inlineBytes(input) > MAX_INLINE_BYTES) return;
    this.#options.inputs.put(seq, input);
  }

  #readHead({ endpoint, priority, after, limit }: Extract<Effect, { kind: 'read-head' }>): void {
    this.#read('head', [{ endpoint, priority, after, limit, inputLimit: MAX_INLINE_BYTES }], (rows) => {
      this.#options.feed({ kind: 'head-read', endpoint, priority, rows, limit });
      // A job that ended during the read is not in the state.
      for (const { job, input } of rows) if (input !== null) this.#keep(job, input);
    });
  }

  /** Sends a leased job. Its input is in memory or is read first. */
  #dispatch(effect: DispatchEffect): void {
    const { ports, inputs, state, feed, whenConfirmed } = this.#options;
    const input = effect.hasS3 ? undefined : inputs.get(effect.seq);
    if (input !== undefined) {
      ports.sendJob(effect, input, null);
      return;
    }
    const send = (payload: ReturnType<Reads['payload']>): void => {
      const job = state.jobs.get(effect.job);
      const isCurrent = job !== undefined && job.token === effect.token && job.lease !== null;
      const damage = payload !== null && isDamaged(payload.input) ? payload.input : null;
      if (isCurrent && payload !== null && !isDamaged(payload.input)) ports.sendJob(effect, payload.input, payload.s3);
      else feed({ kind: 'undelivered', node: effect.node, job: effect.job, token: effect.token, worker: effect.worker, damage });
    };
    // The read may have taken longer than the term is confirmed for.
    this.#read('payload', [effect.seq], (payload) => whenConfirmed(() => send(payload)));
  }

  /** Reads and passes the result on, unless the state was dropped in the meantime. */
  #read<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, then: (result: ReturnType<Reads[K]>) => void): void {
    this.#options.store.read(query, args, {
      done: (result) => {
        if (!this.#stopped) then(result);
      },
      failed: (error) => {
        if (!this.#stopped) this.#options.failed(error);
      },
    });
  }
}
