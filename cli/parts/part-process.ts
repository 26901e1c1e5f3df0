/**
 * One part as a process (docs/borders.md, Processes under `capstan up`): starts it, says so,
 * and closes it when it is told to end or when the supervisor is gone.
 */
import { CapstanError, type ErrorCode } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import type { Environment } from '../config.ts';
import type { PartMessage } from '../supervisor/child.ts';
import { endWish } from '../terminal/end-signals.ts';
import { explain } from '../terminal/tool-error.ts';

export interface PartHandle {
  close(): Promise<void>;
}

export interface RunningPart {
  readonly handle: PartHandle;
  /** Where it serves, for people and for the other parts; empty when it serves nothing. */
  readonly address: string;
  /** Resolves when the part ended by itself, and says why. */
  readonly gaveUp?: Promise<CapstanError>;
}

/** Set by the supervisor for its parts: others may start a process with a channel, too. */
export const SUPERVISED = 'CAPSTAN_SUPERVISED';

/**
 * Arguments for Node before those of a part. On a host with much memory the young generation of V8 may grow to 128 MiB in each thread, in steps
 * that come after hours under load, while a part keeps some 50 MiB; this bounds it to 32 MiB. Known when the process starts or never, so whatever
 * starts a part names them: the supervisor and the units in deploy/systemd.
 */
export const PART_NODE_ARGS: readonly string[] = ['--max-semi-space-size=16'];

/**
 * Runs a part until it is told to end; gives the exit code. A refusal goes over the supervisor's channel
 * where there is one, else it is thrown.
 */
export async function runPart({ variables }: Environment, start: () => Promise<RunningPart>): Promise<number> {
  const isSupervised = process.connected && variables[SUPERVISED] === '1';
  const end = isSupervised ? { wished: supervisorsWish(), release: () => undefined } : endWish();
  let running: RunningPart;
  try {
    running = await start();
  } catch (thrown) {
    const error = nameSystemError(thrown);
    // What a start that failed has left open would keep the process.
    setTimeout(() => process.exit(), 1000).unref();
    if (!isSupervised || !(error instanceof CapstanError)) throw error;
    await tell({ type: 'failed', code: error.code, message: error.message });
    process.exit(explain(error).exitCode);
  }
  if (isSupervised) await tell({ type: 'ready', address: running.address });
  const reason = await Promise.race([end.wished, ...(running.gaveUp === undefined ? [] : [running.gaveUp])]);
  if (reason !== undefined && isSupervised) await tell({ type: 'failed', code: reason.code, message: reason.message });
  await running.handle.close();
  end.release();
  // What may still be open (a pipe that nobody reads) must not keep a closed part alive.
  setTimeout(() => process.exit(), 1000).unref();
  if (process.connected) process.disconnect();
  if (reason !== undefined) throw reason;
  return 0;
}

/** Settles when the supervisor ends the part, or is gone. SIGINT and SIGHUP are the supervisor's own: the terminal sends them to everyone. */
function supervisorsWish(): Promise<void> {
  return new Promise((resolve) => {
    process.on('SIGTERM', () => resolve());
    for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
    process.on('disconnect', () => resolve());
  });
}

/** Sends a message and waits until it is written; a supervisor that is gone hears nothing. */
function tell(message: PartMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve();
    else process.send(message, () => resolve());
  });
}

/** The system errors that a start meets in practice: a port that is taken, a disk that is full. */
function nameSystemError(thrown: unknown): unknown {
  if (isErrno(thrown, 'ENOSPC', 'EDQUOT')) return new CapstanError('DISK_FULL', 'the disk of the data folder is full', { cause: thrown });
  if (!isErrno(thrown, 'EADDRINUSE')) return thrown;
  const code: ErrorCode = 'ADDRESS_IN_USE';
  const port = 'port' in thrown && typeof thrown.port === 'number' ? `port ${thrown.port}` : 'the address';
  return new CapstanError(code, `${port} is in use by another program`, { cause: thrown });
}
