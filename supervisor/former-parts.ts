/**
 * The parts of a supervisor that was killed. They end by themselves, but need a moment: until then they have the ports
 * and the agent's folder. `parts.json` in the data folder names the running parts, so that the next start can wait.
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { z } from 'zod';

import { replaceDurablySync } from '../lib/durable.ts';
import { identityOf, isRunning, type ProcessIdentity } from '../lib/lock.mjs';
import { isErrno, messageOf } from '../lib/to-error.ts';

const LOOK_MS = 50;
/** A wait that is shorter is not worth a message. */
const SAY_AFTER_MS = 1_000;

const identity = z.object({ pid: z.int().positive(), started: z.string().nullable() });
const schema = z.record(z.string(), identity);

/** Keeps `parts.json` true while a supervisor runs. */
export class PartsFile {
  readonly #path: string;
  readonly #trouble: (text: string) => void;
  readonly #parts = new Map<string, ProcessIdentity>();

  /** @param trouble called when the file cannot be written; the stack runs without it. */
  constructor(dataDir: string, trouble: (text: string) => void) {
    this.#path = pathOf(dataDir);
    this.#trouble = trouble;
  }

  started(part: string, pid: number): void {
    this.#parts.set(part, identityOf(pid));
    this.#write();
  }

  ended(part: string): void {
    this.#parts.delete(part);
    this.#write();
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }

  #write(): void {
    try {
      replaceDurablySync(this.#path, `${JSON.stringify(Object.fromEntries(this.#parts))}\n`);
    } catch (error) {
      this.#trouble(`cannot write ${this.#path}: ${messageOf(error)}`);
    }
  }
}

export interface FormerPartsOptions {
  /** Time for the parts to end, ms. Those that still run then are killed, if they are known to be the parts. */
  readonly graceMs: number;
  /** Called once when there is something to wait for, with the names of the parts. */
  waiting(parts: readonly string[]): void;
  /** Called when parts are killed. */
  killing(parts: readonly string[]): void;
  /** Called when parts are left alone: a process has their id, and may be another program's. */
  leaving(parts: readonly string[]): void;
}

/**
 * Resolves when no part of an earlier supervisor runs on the data folder. The caller holds the folder's lock.
 *
 * A process without a known start time (the system tells none, or it was gone before it was read) may have got the id of a part
 * that ended long ago. It is waited for as the others are, and never killed.
 */
export async function formerPartsEnded(dataDir: string, { graceMs, waiting, killing, leaving }: FormerPartsOptions): Promise<void> {
  const parts = readParts(dataDir);
  const began = performance.now();
  let isSaid = false;
  let isKilled = false;
  for (;;) {
    const left = [...parts].filter(([, process]) => isRunning(process));
    if (left.length === 0) return;
    const names = left.map(([name]) => name);
    const waited = performance.now() - began;
    if (!isSaid && waited >= SAY_AFTER_MS) {
      isSaid = true;
      waiting(names);
    }
    if (waited >= graceMs) {
      const known = left.filter(([, { started }]) => started !== null);
      if (!isKilled) {
        isKilled = true;
        const unknown = names.filter((name) => !known.some(([each]) => each === name));
        if (unknown.length > 0) leaving(unknown);
        if (known.length > 0) killing(known.map(([name]) => name));
        for (const [, { pid }] of known) kill(pid);
      }
      if (known.length === 0) return;
    }
    await pause(LOOK_MS);
  }
}

function readParts(dataDir: string): ReadonlyMap<string, ProcessIdentity> {
  let text: string;
  try {
    text = readFileSync(pathOf(dataDir), 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return new Map();
    throw error;
  }
  try {
    return new Map(Object.entries(schema.parse(JSON.parse(text))));
  } catch {
    return new Map(); // not a file of ours
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

function pathOf(dataDir: string): string {
  return join(dataDir, 'parts.json');
}
