/** One run of a part: a process with a channel, over which it sends `ready` or the reason of its refusal. */
import { spawn } from 'node:child_process';

import { z } from 'zod';

import type { Refusal } from './core/restart.ts';

/** A standby waits for the work of another process of its kind; every other part is the owner of its own. */
const roleSchema = z.enum(['owner', 'standby']);

export type PartRole = z.output<typeof roleSchema>;

/** Messages of a part over its channel (docs/borders.md, Processes under `capstan up`). */
const messageSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready'), address: z.string().default(''), role: roleSchema.default('owner') }),
  z.object({ type: z.literal('role'), role: roleSchema }),
  z.object({ type: z.literal('failed'), code: z.string(), message: z.string() }),
]);

/** Time limit for a part's last output to arrive after its exit, ms. */
const DRAIN_MS = 250;

export type PartMessage = z.input<typeof messageSchema>;

export interface ChildCommand {
  /** Arguments for Node. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface ChildEvents {
  /** It serves, or stands by. */
  ready(address: string): void;
  /** Its role when it is ready, and each that follows. */
  role?(role: PartRole): void;
  /** It has ended, and everything it sent before was passed on. */
  exited(how: string, refusal: Refusal | null): void;
  /** Its output, stdout and stderr alike. */
  printed(chunk: Buffer): void;
}

export interface Child {
  readonly pid: number | undefined;
  kill(signal: NodeJS.Signals): void;
}

export function startChild(command: ChildCommand, events: ChildEvents): Child {
  const child = spawn(process.execPath, command.args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...command.env } });
  let refusal: Refusal | null = null;
  let how: string | null = null;
  let drained = false;
  let over = false;

  /** The exit event may overtake the last messages of the channel and the last lines of the pipes. */
  const finish = (): void => {
    if (over || how === null || child.connected || !drained) return;
    over = true;
    child.stdout?.destroy();
    child.stderr?.destroy();
    events.exited(how, refusal);
  };
  const allRead = (): void => {
    drained = true;
    finish();
  };
  child.on('message', (raw) => {
    const message = messageSchema.safeParse(raw);
    if (!message.success) return; // a newer part may send other messages
    if (message.data.type === 'failed') {
      refusal = { code: message.data.code, message: message.data.message };
      return;
    }
    if (message.data.type === 'ready') events.ready(message.data.address);
    events.role?.(message.data.role);
  });
  child.stdout?.on('data', (chunk: Buffer) => events.printed(chunk));
  child.stderr?.on('data', (chunk: Buffer) => events.printed(chunk));
  child.on('disconnect', finish);
  child.on('exit', (code, signal) => {
    how = signal ?? `exit code ${String(code)}`;
    // Processes that the part started may still hold the pipes: the wait for their end is limited.
    setTimeout(allRead, DRAIN_MS);
    finish();
  });
  child.on('close', allRead);
  child.on('error', (error) => {
    // The process could not be started; there is no exit event. A failed send comes here too, and its exit follows.
    if (child.pid !== undefined || over) return;
    over = true;
    events.exited(error.message, null);
  });
  return {
    get pid() {
      return child.pid;
    },
    kill: (signal) => void child.kill(signal),
  };
}
