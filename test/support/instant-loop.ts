/**
 * What the scheduler's commit loop needs, in a world where nothing takes time: its callbacks wait in a queue until
 * {@link CallbackQueue.drain}, so that a test sees all consequences of an event as soon as that returns.
 */
import type { Now } from '../../scheduler/core/now.ts';
import type { Clock } from '../../scheduler/engine/clock.ts';
import type { LoopStore } from '../../scheduler/engine/loop-store.ts';
import type { StoreEngine } from '../../scheduler/core/ports/store.ts';

export class CallbackQueue {
  readonly #waiting: (() => void)[] = [];

  push(run: () => void): void {
    this.#waiting.push(run);
  }

  /** Calls back in order, until nothing waits. */
  drain(): void {
    for (let run = this.#waiting.shift(); run !== undefined; run = this.#waiting.shift()) run();
  }
}

/** A clock without timers: the test itself lets each deadline come. */
export function timerlessClock(now: () => Now, queue: CallbackQueue): Clock {
  return { now, after: () => () => undefined, defer: (run) => queue.push(run) };
}

/** A store whose calls take effect at once. */
export function instantStore(engine: Omit<StoreEngine, 'close'>, queue: CallbackQueue): LoopStore {
  const read: LoopStore['read'] = (query, args, { done }) => {
    const result = engine.read(query, ...args);
    queue.push(() => done(result));
  };
  return {
    fenceMs: null,
    commit: (fence, ops, { done }) => {
      const outcomes = engine.commit(fence, ops);
      queue.push(() => done(outcomes));
    },
    read,
    search: read,
    acquire: ({ cell, owner, forMs }, { done }) => {
      const taken = engine.acquire(cell, owner, forMs);
      queue.push(() => done(taken));
    },
  };
}
