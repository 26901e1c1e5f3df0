/**
 * Requests to end for commands that keep running: SIGINT, SIGTERM, SIGHUP, and the end of the process that started the
 * command: over a channel (`npm start`, or `capstan` on an old Node, which starts the bundled one), or npm's shell.
 */
import { readEnvironment } from './config.ts';

/**
 * Signals that arrive together (from the terminal to the whole group, and once more through npm) count as one request.
 */
const SAME_WISH_MS = 500;

/** Interval at which the parent process is read, ms: no event tells that it has ended. */
const PARENT_MS = 500;

export interface EndSignals {
  /** 0 unless a second signal interrupted the stop. */
  exitCode(): number;
  /** The command has ended: later signals have no effect. */
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
  const stopWatching = watchNpm(onGone);
  const names = Object.keys(numbers) as (keyof typeof numbers)[];
  for (const name of names) process.on(name, onSignal);
  // `npm start` runs this process with a channel: when that closes without a signal, this process ends, too.
  if (process.connected) process.on('disconnect', onGone);
  return {
    exitCode: () => code,
    release() {
      // The same Ctrl+C may arrive once more (npm and an older Node pass it on), much later on a busy machine: it must
      // not interrupt a command that has ended.
      isReleased = true;
      if (firstAt === null) for (const name of names) process.off(name, onSignal);
      process.off('disconnect', onGone);
      stopWatching();
      if (process.connected) process.disconnect();
    },
  };
}

/**
 * Under `npx` and `npm run`: npm sends SIGTERM to its shell only, which ends and leaves this process to another parent.
 * A process that npm did not start may outlive its shell.
 */
function watchNpm(onGone: () => void): () => void {
  if ((readEnvironment().variables['npm_lifecycle_event'] ?? '') === '') return () => undefined;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, PARENT_MS).unref();
  return () => clearInterval(timer);
}

export interface EndWish {
  /** Settles with the first request to end. Until {@link release}, a second one ends the process at once. */
  readonly wished: Promise<void>;
  release(): void;
}

export function endWish(): EndWish {
  const { promise, resolve } = Promise.withResolvers<void>();
  const signals = onEndSignals({ first: resolve, again: () => process.exit(signals.exitCode()), gone: resolve });
  return { wished: promise, release: () => signals.release() };
}
