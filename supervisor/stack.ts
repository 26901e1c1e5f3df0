/** `capstan up`: runs one stack on one data folder, from the lock to the last message. */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { assertNever, CapstanError, isErrorCode } from '../lib/errors.ts';
import type { Environment, Settings } from '../terminal/config.ts';
import { acquireLock } from '../lib/lock.mjs';
import { errnoOf } from '../lib/to-error.ts';
import { SYSTEM_ERRORS } from '../lib/system-errors.ts';
import { removeRunFile, writeRunFile } from './run-file.ts';
import { storedApiKey } from './stored-secrets.ts';
import { onEndSignals } from '../terminal/end-signals.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { formerPartsEnded, PartsFile } from './former-parts.ts';
import type { Notice } from './log-line.ts';
import { ownBase } from './own-base.ts';
import { GRACE_MS, schedulerList, stackPlans, stopOrder } from './plans.ts';
import { supervise, type PartPlan } from './supervisor.ts';

export interface StackAddresses {
  /** Base URL of the gateway for this host. */
  readonly url: string;
  /** `host:port`. */
  readonly http: string;
  /** `host:port`; several of them, separated by commas. */
  readonly grpc: string;
}

export interface ReadyStack extends StackAddresses {
  /** Its data folder was created by this start, so nothing is deployed yet. */
  readonly isNew: boolean;
}

export interface StackOptions {
  readonly settings: Settings;
  readonly environment: Environment;
  readonly terminal: Terminal;
  /**
   * Runs when all parts are ready; an error that it throws ends the stack. The signal is aborted when the stack ends
   * first.
   */
  readonly whenReady: (stack: ReadyStack, signal: AbortSignal) => Promise<void>;
  /** The parts to run; tests replace them by small ones. */
  readonly parts?: readonly PartPlan[];
}

/**
 * Runs a stack until it is told to end; returns the exit code: 0 after SIGINT or SIGTERM and a normal stop, 130 or 143
 * when a second signal interrupted it.
 * @throws CapstanError DATA_DIR, CONFLICT when another stack runs on the data folder, the refusal of a part's start, or
 * what `whenReady` threw.
 */
export async function runStack(options: StackOptions): Promise<number> {
  const { settings, terminal } = options;
  const lock = lockDataFolder(settings.dataDir);
  try {
    await formerPartsEnded(settings.dataDir, {
      graceMs: GRACE_MS,
      waiting: (parts) => terminal.step(`waiting for processes of an earlier run to end: ${parts.join(', ')}`),
      killing: (parts) => terminal.warn(`processes of an earlier run did not end within ${GRACE_MS / 1000} s: killing ${parts.join(', ')}`),
      leaving: (parts) =>
        terminal.warn(
          `processes with the ids of an earlier run may belong to other programs: ${parts.join(', ')}; starting without waiting for them`,
        ),
    });
    return await runLocked(options);
  } finally {
    removeRunFile(settings.dataDir);
    lock.release();
    terminal.progress('');
  }
}

async function runLocked({ settings, environment, terminal, whenReady, parts }: StackOptions): Promise<number> {
  const plans = parts ?? stackPlans(settings, environment);
  const keyBefore = storedApiKey(settings.dataDir);
  const logs = join(settings.dataDir, 'logs');
  const ending = new AbortController();
  const running = new PartsFile(settings.dataDir, (text) => terminal.warn(text));
  const stack = supervise({
    parts: plans,
    stopOrder: stopOrder(plans),
    logs,
    started: (part, pid) => running.started(part, pid),
    ended: (part) => running.ended(part),
    notice: (notice) => say(terminal, notice),
    logged: (part, { level, text }) => say(terminal, { level, text: `${part}: ${text}` }),
  });
  const end = (): void => {
    ending.abort();
    stack.stop();
  };
  const signals = onEndSignals({
    first: () => {
      terminal.step('stopping');
      end();
    },
    again: () => stack.stop(),
    gone: end,
  });
  const failures: Error[] = [];
  const serving = stack.ready.then(async (known) => {
    const http = hostAndPort(known.get('gateway'));
    const url = ownBase(environment, /\d+$/.exec(http)?.[0] ?? '');
    const addresses = { url, http, grpc: schedulerList(known) };
    writeRunFile(settings.dataDir, { pid: process.pid, ...addresses });
    announce(terminal, settings, addresses, keyBefore);
    await whenReady({ ...addresses, isNew: keyBefore === null }, ending.signal);
  });
  serving.catch((error: unknown) => {
    if (ending.signal.aborted) return;
    failures.push(error instanceof Error ? error : new Error(String(error)));
    end();
  });
  const refusal = await stack.finished;
  running.remove();
  signals.release();
  const [failure] = failures;
  if (failure !== undefined) throw failure;
  if (refusal === null) return signals.exitCode();
  const code = isErrorCode(refusal.code) ? refusal.code : 'INTERNAL';
  throw code === 'INTERNAL'
    ? new ToolError(code, refusal.message, `Its last output is in ${logs}.`)
    : new CapstanError(code, refusal.message);
}

function say(terminal: Terminal, { level, text }: Notice): void {
  switch (level) {
    case 'info':
      return terminal.done(text);
    case 'warn':
      return terminal.warn(text);
    case 'error':
      return terminal.fail(text);
    default:
      return assertNever(level);
  }
}

function announce(terminal: Terminal, settings: Settings, { url, grpc }: StackAddresses, keyBefore: string | null): void {
  terminal.done(
    `Capstan is up: ${url} (API docs at ${url}/docs), ${grpc.includes(',') ? 'schedulers' : 'scheduler'} at ${grpc.replaceAll(',', ', ')}, data in ${settings.dataDir}`,
  );
  const key = storedApiKey(settings.dataDir);
  if (keyBefore === null && key !== null && settings.apiKey === undefined) terminal.line(`API key: ${key}`);
  if (settings.apiKey !== undefined && key !== null && key !== settings.apiKey) {
    terminal.warn('SERVICE_API_KEY is not the key of this data folder, which was created with another key; the folder’s key applies');
  }
}

/** The data folder, locked by this process. */
function lockDataFolder(dataDir: string): { release: () => void } {
  let lock;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    lock = acquireLock(join(dataDir, 'up.lock'));
  } catch (cause) {
    const code = errnoOf(cause) ?? String(cause);
    throw new CapstanError('DATA_DIR', `cannot use the data folder ${dataDir}: ${inWords[code] ?? code} (${code})`, { cause });
  }
  if ('release' in lock) return lock;
  throw new ToolError(
    'CONFLICT',
    `Capstan is already running on the data folder ${dataDir} (process ${lock.heldBy})`,
    'Use it, stop it, or choose another folder and other ports with --data-dir, --http-port and --grpc-port.',
  );
}

const inWords: Readonly<Record<string, string>> = {
  ...SYSTEM_ERRORS,
  // The error of a recursive mkdir on a read-only file system.
  ENOENT: 'it cannot be created there',
};

/** A part may report a URL or an address. */
function hostAndPort(said: string | undefined): string {
  return (said ?? '').replace(/^https?:\/\//, '').replace(/\/$/, '');
}
