/**
 * What tells a command that runs on to end: SIGINT, SIGTERM, SIGHUP, and the end of the process that started it with a channel
 * (`npm start`, or `capstan` on an old Node, which hands over to the bundled one).
 */

/** Signals that come together (from the terminal to the whole group, and once more through npm) are one wish. */
const SAME_WISH_MS = 500;

export interface EndSignals {
  /** 0 unless a second signal cut the end short. */
  exitCode(): number;
  /** The end is reached: later signals change nothing. */
  release(): void;
}

export function onEndSignals(wish: { first: () => void; again: () => void; gone: () => void }): EndSignals {
  const numbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;
  let firstAt: number | null = null;
  let code = 0;
  let isReleased = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isReleased) return;
    const now = performance.now();
    if (firstAt === null) {
      firstAt = now;
      wish.first();
    } else if (now - firstAt > SAME_WISH_MS) {
      code = 128 + numbers[signal as keyof typeof numbers];
      wish.again();
    }
  };
  const onGone = (): void => {
    if (firstAt === null) wish.gone();
    firstAt ??= performance.now();
  };
  const names = Object.keys(numbers) as (keyof typeof numbers)[];
  for (const name of names) process.on(name, onSignal);
  // `npm start` runs us with a channel: when it is gone without a word, so are we.
  if (process.connected) process.on('disconnect', onGone);
  return {
    exitCode: () => code,
    release() {
      // The same Ctrl+C may arrive once more (npm and an older Node pass it on), on a busy machine long after: it must not cut off what has ended.
      isReleased = true;
      if (firstAt === null) for (const name of names) process.off(name, onSignal);
      process.off('disconnect', onGone);
      if (process.connected) process.disconnect();
    },
  };
}

export interface EndWish {
  /** Settles with the first wish to end. Until {@link release}, a second one ends the process at once. */
  readonly wished: Promise<void>;
  release(): void;
}

export function endWish(): EndWish {
  const { promise, resolve } = Promise.withResolvers<void>();
  const signals = onEndSignals({ first: resolve, again: () => process.exit(signals.exitCode()), gone: resolve });
  return { wished: promise, release: () => signals.release() };
}
