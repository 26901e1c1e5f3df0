/**
 * Runs one part as a process (docs/borders.md, Processes under `capstan up`): starts it, reports its address, and
 * closes it when it is told to end or when the supervisor is gone.
 */
import { CapstanError, type ErrorCode } from '../lib/errors.ts';
import { isErrno } from '../lib/to-error.ts';
import { inUse } from '../lib/http-messages.ts';
import type { Environment } from '../terminal/config.ts';
import type { PartMessage, PartRole } from './child.ts';
import { endWish } from '../terminal/end-signals.ts';
import { explain } from '../terminal/tool-error.ts';

export interface PartHandle {
  close(): Promise<void>;
}

export interface RunningPart {
  readonly handle: PartHandle;
  /** Address at which it serves, for people and for the other parts; empty when it serves nothing. */
  readonly address: string;
  /** Of a part that may stand by for another process of its kind: what it is now, and a way to hear of changes. */
  readonly role?: { now(): PartRole; watch(changed: (role: PartRole) => void): void };
  /** Resolves with the reason when the part ends by itself. */
  readonly gaveUp?: Promise<CapstanError>;
}

/** Set by the supervisor for its parts, because other programs may start a process with a channel, too. */
export const SUPERVISED = 'CAPSTAN_SUPERVISED';

/**
 * Arguments for Node before those of a part. On a host with much memory V8 lets a heap grow far beyond what is in use: the young
 * generation to 128 MiB in each thread, in steps after hours under load, while a part keeps about 50 MiB. This limits it to 32 MiB.
 * It can only be set when the process starts, so every program that starts a part sets it: the supervisor and the units in
 * deploy/systemd.
 */
export const PART_NODE_ARGS: readonly string[] = ['--max-semi-space-size=16'];

/**
 * Runs a part until it is told to end; returns the exit code. A refusal is sent over the supervisor's channel if there
 * is one, else it is thrown.
 */
export async function runPart({ variables }: Environment, start: () => Promise<RunningPart>): Promise<number> {
  const isSupervised = process.connected && variables[SUPERVISED] === '1';
  const end = isSupervised ? { wished: supervisorsWish(), release: () => undefined } : endWish();
  let running: RunningPart | undefined;
  // A start may take long (a migration, a database that does not answer): nothing is open yet that must be closed in order.
  void end.wished.then(() => setTimeout(() => running ?? process.exit(), 1000).unref());
  try {
    running = await start();
  } catch (thrown) {
    const error = nameSystemError(thrown);
    // Resources that a failed start left open would keep the process alive.
    setTimeout(() => process.exit(), 1000).unref();
    if (!isSupervised || !(error instanceof CapstanError)) throw error;
    await tell({ type: 'failed', code: error.code, message: error.message });
    process.exit(explain(error).exitCode);
  }
  if (isSupervised) {
    const { address, role } = running;
    await tell({ type: 'ready', address, role: role?.now() ?? 'owner' });
    role?.watch((changed) => void tell({ type: 'role', role: changed }));
  }
  const reason = await Promise.race([end.wished, ...(running.gaveUp === undefined ? [] : [running.gaveUp])]);
  if (reason !== undefined && isSupervised) await tell({ type: 'failed', code: reason.code, message: reason.message });
  await running.handle.close();
  end.release();
  // Resources that may still be open (a pipe that nobody reads) must not keep a closed part alive.
  setTimeout(() => process.exit(), 1000).unref();
  if (process.connected) process.disconnect();
  if (reason !== undefined) throw reason;
  return 0;
}

/**
 * Settles when the supervisor ends the part, or is gone. Only the supervisor handles SIGINT and SIGHUP, because the
 * terminal sends them to every process.
 */
function supervisorsWish(): Promise<void> {
  return new Promise((resolve) => {
    process.on('SIGTERM', () => resolve());
    for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
    process.on('disconnect', () => resolve());
  });
}

/** Sends a message and waits until it is written; without a supervisor it is dropped. */
function tell(message: PartMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve();
    else process.send(message, () => resolve());
  });
}

/** The usual system errors of a start: a port in use, a full disk. */
function nameSystemError(thrown: unknown): unknown {
  if (isErrno(thrown, 'ENOSPC', 'EDQUOT')) return new CapstanError('DISK_FULL', 'the disk of the data folder is full', { cause: thrown });
  if (!isErrno(thrown, 'EADDRINUSE')) return thrown;
  const code: ErrorCode = 'ADDRESS_IN_USE';
  const port = 'port' in thrown && typeof thrown.port === 'number' ? `port ${thrown.port}` : 'the address';
  return new CapstanError(code, inUse(port), { cause: thrown });
}
