/**
 * Retries, cancels or purges the jobs of an endpoint that a filter admits, in the background.
 *
 * An operation goes from the newest job that was there when it began to the oldest, so a job that it retries, which gets a new place
 * at the tail, is not met again. It is not stored: with the end of the scheduler, or of its ownership, it ends where it is, and
 * starting it again goes on, because what was changed is admitted no more.
 */
import { randomUUID } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { BulkAction, BulkState, type BulkOperation } from '../../proto/gen/capstan/v1/control.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import { PIECE_ROWS, SEARCH_MS } from '../engine/search-turns.ts';
import type { JobRow, StoredState } from '../core/ports/store.ts';
import { admitted, type JobFilter } from './job-filter.ts';

export interface BulkRequest {
  readonly account: string;
  readonly endpoint: string;
  readonly action: BulkAction;
  readonly filter: JobFilter;
}

interface Operation {
  readonly account: string;
  readonly shown: BulkOperation;
  stops: boolean;
}

/** Jobs that are changed at once: few, so that the requests of callers get their turn between them. */
const AT_ONCE = 50;
/** Rows that one count looks at. */
const MAX_COUNTED = 20_000;
/** For how long an operation that ended is listed, ms. */
const LISTED_MS = 3_600_000;
/** Operations that one account may have running or listed; the oldest that ended go first. */
const MAX_OF_ACCOUNT = 50;

interface Kind {
  /** States in the store of the jobs that it may change. */
  readonly stored: readonly StoredState[];
  readonly states: readonly JobState[];
}

const KINDS: Readonly<Partial<Record<BulkAction, Kind>>> = {
  [BulkAction.RETRY]: { stored: ['FAILED', 'TIMED_OUT'], states: [JobState.FAILED, JobState.TIMED_OUT] },
  [BulkAction.CANCEL]: { stored: ['IN_QUEUE', 'LEASED'], states: [JobState.IN_QUEUE, JobState.IN_PROGRESS] },
  [BulkAction.PURGE]: { stored: ['IN_QUEUE'], states: [JobState.IN_QUEUE] },
};

export interface BulkDeps {
  readonly engine: Engine;
  readonly log: EngineLog;
  readonly wall: () => number;
}

export class BulkOperations {
  readonly #deps: BulkDeps;
  /** In the order of their start. */
  readonly #operations = new Map<string, Operation>();

  constructor(deps: BulkDeps) {
    this.#deps = deps;
  }

  /** How many jobs an operation would change now. @throws CapstanError INVALID_ARGUMENT */
  async count(request: BulkRequest): Promise<{ readonly count: number; readonly incomplete: boolean }> {
    let count = 0;
    let examined = 0;
    const { engine } = this.#deps;
    const until = performance.now() + SEARCH_MS;
    for await (const rows of this.#pages(request)) {
      const found = await engine.searches.take(request.account, () => admitted(engine, rows, request.filter));
      count += found.size;
      examined += rows.length;
      if (examined >= MAX_COUNTED || performance.now() >= until) return { count, incomplete: true };
    }
    return { count, incomplete: false };
  }

  /** @throws CapstanError INVALID_ARGUMENT; CONFLICT while another one of the endpoint runs. */
  start(request: BulkRequest): BulkOperation {
    const { account, endpoint, action } = request;
    kindOf(request);
    this.#forget(account);
    for (const { shown } of this.#operations.values())
      if (shown.endpointId === endpoint && shown.state === BulkState.RUNNING)
        throw new CapstanError('CONFLICT', 'endpoint: another operation on its jobs is running; stop it, or wait for it to end', {
          field: 'endpoint',
        });
    const shown: BulkOperation = {
      id: randomUUID(),
      endpointId: endpoint,
      action,
      state: BulkState.RUNNING,
      examined: 0n,
      changed: 0n,
      skipped: 0n,
      startedAtMs: BigInt(Math.trunc(this.#deps.wall())),
      endedAtMs: 0n,
      error: '',
    };
    const operation: Operation = { account, shown, stops: false };
    this.#operations.set(shown.id, operation);
    void this.#run(operation, request);
    return { ...shown };
  }

  /** Those of an account, newest first; of one endpoint if it is given. */
  list(account: string, endpoint: string): BulkOperation[] {
    this.#forget(account);
    return [...this.#operations.values()]
      .filter((each) => each.account === account && (endpoint === '' || each.shown.endpointId === endpoint))
      .map(({ shown }) => ({ ...shown }))
      .toReversed();
  }

  /** @throws CapstanError NOT_FOUND */
  stop(account: string, id: string): BulkOperation {
    const operation = this.#operations.get(id);
    if (operation === undefined || operation.account !== account)
      throw new CapstanError('NOT_FOUND', `id: operation ${id} does not exist; operations that ended are listed for an hour`, {
        field: 'id',
      });
    operation.stops = true;
    return { ...operation.shown };
  }

  async #run(operation: Operation, request: BulkRequest): Promise<void> {
    const { shown } = operation;
    let [examined, changed, skipped] = [0, 0, 0];
    let end: Pick<BulkOperation, 'state' | 'error'> = { state: BulkState.DONE, error: '' };
    try {
      for await (const rows of this.#pages(request)) {
        for (let from = 0; from < rows.length && !operation.stops; from += AT_ONCE) {
          const some = rows.slice(from, from + AT_ONCE);
          const found = await admitted(this.#deps.engine, some, request.filter);
          const results = await Promise.all(some.filter((row) => found.has(row)).map((row) => this.#change(row, request)));
          examined += some.length;
          changed += results.filter((result) => result === 'changed').length;
          skipped += results.filter((result) => result === 'skipped').length;
          Object.assign(shown, { examined: BigInt(examined), changed: BigInt(changed), skipped: BigInt(skipped) });
        }
        if (operation.stops) break;
      }
      if (operation.stops) end = { state: BulkState.STOPPED, error: '' };
    } catch (error) {
      end = { state: BulkState.FAILED, error: messageOf(error) };
    }
    Object.assign(shown, end, { endedAtMs: BigInt(Math.trunc(this.#deps.wall())) });
    this.#deps.log.info(
      { endpoint: shown.endpointId, operation: shown.id, changed, skipped, error: shown.error },
      'operation on jobs ended',
    );
  }

  async #change(row: JobRow, { endpoint, action }: BulkRequest): Promise<'changed' | 'skipped'> {
    const { engine } = this.#deps;
    // A job may have begun since its row was read. The command is applied at once.
    const live = engine.state.jobs.get(row.id);
    if (action === BulkAction.PURGE && live !== undefined && live.phase !== 'QUEUED') return 'skipped';
    try {
      const answer = await engine.command({ kind: action === BulkAction.RETRY ? 'retry' : 'cancel', endpoint, job: row.id });
      // A job that had ended keeps its state.
      return answer.kind === 'job' && (answer.state === 'CANCELLED' || answer.state === 'IN_QUEUE') ? 'changed' : 'skipped';
    } catch (error) {
      if (error instanceof CapstanError && (error.code === 'CONFLICT' || error.code === 'NOT_FOUND')) return 'skipped';
      throw error;
    }
  }

  /** Pages of the rows that may be concerned, newest first, of one state after the other. */
  async *#pages(request: BulkRequest): AsyncGenerator<readonly JobRow[]> {
    const { engine } = this.#deps;
    const newest = engine.state.nextQueuePosition;
    for (const state of kindOf(request).stored) {
      for (let before = newest; ;) {
        const from = before;
        const rows = await engine.searches.take(request.account, () => engine.search('newest', request.endpoint, state, from, PIECE_ROWS));
        const last = rows.at(-1);
        if (last === undefined) break;
        yield rows;
        // In the order of positions the submissions and retries of all rows behind are earlier still.
        if (rows.length < PIECE_ROWS || last.submittedAt < request.filter.since) break;
        before = last.queuePosition;
      }
    }
  }

  /** Drops what ended long ago, and the oldest that ended of an account with many. */
  #forget(account: string): void {
    const before = this.#deps.wall() - LISTED_MS;
    for (const [id, { shown }] of this.#operations)
      if (shown.state !== BulkState.RUNNING && Number(shown.endedAtMs) < before) this.#operations.delete(id);
    const own = [...this.#operations].filter(([, each]) => each.account === account);
    const ended = own.filter(([, { shown }]) => shown.state !== BulkState.RUNNING);
    for (const [id] of ended.slice(0, Math.max(0, own.length - MAX_OF_ACCOUNT + 1))) this.#operations.delete(id);
    if (own.length - ended.length >= MAX_OF_ACCOUNT)
      throw new CapstanError('RATE_LIMITED', `an account may run at most ${MAX_OF_ACCOUNT} operations on jobs at once`, {
        retryAfterMs: 5_000,
      });
  }
}

function kindOf({ action, filter }: BulkRequest): Kind {
  const kind = KINDS[action];
  if (kind === undefined) throw new CapstanError('INVALID_ARGUMENT', 'action: must be RETRY, CANCEL or PURGE', { field: 'action' });
  if (filter.states.size > 0 && !kind.states.some((state) => filter.states.has(state)))
    throw new CapstanError('INVALID_ARGUMENT', 'filter.status: jobs with this status cannot be changed by this action', {
      field: 'filter.status',
    });
  return kind;
}
