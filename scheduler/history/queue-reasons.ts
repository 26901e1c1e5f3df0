/**
 * Records why the queues of endpoints wait: each second, the endpoints whose reason is another one than the last that was written.
 * An endpoint without waiting jobs costs a look at its counts.
 */
import { queueReason } from '../core/jobs/reasons.ts';
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { QueueReasonRow, QueueReasonStore } from '../store/queue-reasons.ts';

export interface QueueReasonOptions {
  /** Null while the queue is being taken over. */
  readonly image: () => State | null;
  readonly now: () => Now;
  readonly store: QueueReasonStore;
  readonly log: { warn(fields: object, message: string): void };
}

/** Interval of samples, ms: a reason that changes more often is seen by chance. */
export const SAMPLE_MS = 1_000;
/** Rows of one write: about a millisecond. */
const ROWS = 200;
const DETAIL_CHARACTERS = 200;

export class QueueReasonRecorder {
  readonly #options: QueueReasonOptions;
  /** The reason that was written last of each endpoint that waits. */
  readonly #standing = new Map<string, string>();
  /** The state whose endpoints `#standing` is of. */
  #state: State | null = null;
  #timer: NodeJS.Timeout | null = null;
  #saving: Promise<void> | null = null;
  #isFailing = false;

  constructor(options: QueueReasonOptions) {
    this.#options = options;
  }

  /** Takes samples from now on. */
  start(): void {
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
    this.#timer.unref();
  }

  /** Ends. The reasons that stand go on in the store: the next scheduler goes on from them. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#saving;
  }

  /** Writes what has changed, unless the last write is still under way. */
  sample(): void {
    const state = this.#options.image();
    if (state === null || this.#saving !== null) return;
    if (state === this.#state) {
      const rows = this.#changes(state);
      if (rows.length > 0) this.#run(this.#save(rows));
    } else this.#run(this.#load(state));
  }

  /** Resolves when what was sampled is written, or its write has failed. */
  async written(): Promise<void> {
    await this.#saving;
  }

  #changes(state: State): QueueReasonRow[] {
    const now = this.#options.now();
    const rows: QueueReasonRow[] = [];
    for (const [id, endpoint] of state.endpoints) {
      const { reason, detail } = waits(endpoint) ? queueReason(state, endpoint, now) : { reason: '', detail: '' };
      if (reason !== (this.#standing.get(id) ?? ''))
        rows.push({ endpoint: id, at: Math.trunc(now.wall), reason, detail: detail.slice(0, DETAIL_CHARACTERS) });
    }
    for (const id of this.#standing.keys()) if (!state.endpoints.has(id)) this.#standing.delete(id);
    return rows;
  }

  async #load(state: State): Promise<void> {
    const standing = await this.#options.store.standing();
    this.#standing.clear();
    for (const { endpoint, reason } of standing) this.#standing.set(endpoint, reason);
    this.#state = state;
  }

  /** What is not written differs at the next sample again. */
  async #save(rows: readonly QueueReasonRow[]): Promise<void> {
    for (let from = 0; from < rows.length; from += ROWS) {
      const some = rows.slice(from, from + ROWS);
      await this.#options.store.save(some);
      for (const { endpoint, reason } of some) {
        if (reason === '') this.#standing.delete(endpoint);
        else this.#standing.set(endpoint, reason);
      }
    }
  }

  #run(work: Promise<void>): void {
    this.#saving = work
      .then(
        () => {
          this.#isFailing = false;
        },
        (err: unknown) => {
          if (!this.#isFailing) this.#options.log.warn({ err }, 'the reasons of queues are not written');
          this.#isFailing = true;
        },
      )
      .finally(() => {
        this.#saving = null;
      });
  }
}

function waits({ lanes, config }: EndpointRecord): boolean {
  return config.kind === 'QUEUE' && lanes[0].count + lanes[1].count > 0;
}
