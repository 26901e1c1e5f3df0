/** Begins random faults of the enabled kinds, one after the other or two at once, and records each with its healing. */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';

import { toError } from '../../../lib/to-error.ts';
import { Random } from '../../simulator/random.ts';
import type { Recorder } from '../recorder.ts';
import type { HistoryStack } from '../stack/stack.ts';
import type { Fault, FaultKind, FaultSource } from './fault.ts';

/** Storms and calm alternate; a calm is longer than what faults leave behind, ms. */
const STORM_MS = 45_000;
const CALM_MS = 30_000;
/** A second fault may begin while the first lasts. */
const MAX_AT_ONCE = 2;

export class FaultDriver {
  readonly #stack: HistoryStack;
  readonly #recorder: Recorder;
  readonly #sources: ReadonlyMap<FaultKind, FaultSource>;
  readonly #random: Random;
  readonly #everyMs: number;
  readonly counts = new Map<FaultKind, number>();
  /** Parts whose end is a fault's doing, with how many such faults last. */
  readonly #mayEnd = new Map<string, number>();
  readonly #lasting = new Set<Promise<void>>();
  readonly #stopped = new AbortController();
  #next = 0;
  #running: Promise<void> = Promise.resolve();
  #failure: Error | undefined;

  constructor(
    stack: HistoryStack,
    recorder: Recorder,
    sources: ReadonlyMap<FaultKind, FaultSource>,
    { seed, every }: { readonly seed: number; readonly every: number },
  ) {
    this.#stack = stack;
    this.#recorder = recorder;
    this.#sources = sources;
    this.#random = new Random(seed);
    this.#everyMs = every * 1_000;
  }

  start(): void {
    if (this.#sources.size > 0) this.#running = this.#run();
  }

  /**
   * Begins no further fault, and heals those that last. A part that does not come back within `limitMs` leaves its fault without an end in the
   * history, which is a violation. Throws when a fault could not be made or healed.
   */
  async stop(limitMs: number): Promise<void> {
    this.#stopped.abort();
    const all = this.#running.then(() => Promise.all(this.#lasting));
    await Promise.race([all, pause(limitMs, undefined, { ref: false })]);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Whether a fault that lasts may end this part. */
  explains(part: string): boolean {
    return (this.#mayEnd.get(part) ?? 0) > 0;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    const aborted = once(signal, 'abort');
    let calmAt = performance.now() + STORM_MS;
    while (!signal.aborted) {
      await sleep(this.#everyMs * 2 * this.#random.next(), signal);
      if (performance.now() > calmAt) {
        await sleep(CALM_MS, signal);
        calmAt = performance.now() + STORM_MS;
      }
      if (signal.aborted) return;
      if (this.#lasting.size >= MAX_AT_ONCE) {
        await Promise.race([...this.#lasting, aborted]);
        continue;
      }
      const kind = this.#random.pick([...this.#sources.keys()]);
      const fault = this.#sources.get(kind)?.(this.#random, this.#stack);
      if (fault === undefined) continue;
      const over = this.#let(kind, fault)
        .catch((error: unknown) => {
          this.#failure ??= toError(error);
        })
        .finally(() => this.#lasting.delete(over));
      this.#lasting.add(over);
    }
  }

  async #let(kind: FaultKind, fault: Fault): Promise<void> {
    const number = ++this.#next;
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    this.#recorder.record({ kind: 'fault', number, fault: kind, target: fault.target });
    for (const part of fault.mayEnd ?? []) this.#mayEnd.set(part, (this.#mayEnd.get(part) ?? 0) + 1);
    await fault.begin();
    await sleep(fault.lastsMs, this.#stopped.signal);
    await fault.heal();
    for (const part of fault.mayEnd ?? []) this.#mayEnd.set(part, (this.#mayEnd.get(part) ?? 1) - 1);
    this.#recorder.record({ kind: 'healed', number });
  }
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
