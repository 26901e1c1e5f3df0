/**
 * Limits the files that sandboxes keep in memory, where no control group charges them to a worker: `/tmp`, the working folder and
 * `/dev/shm` are mounts of their own, whose contents belong to no process. They count towards a worker's memory limit, and those of
 * all workers together may take half of this host's memory: beyond it the worker with most of them is ended, not another one.
 */
import { statfsSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';

import { INSIDE } from './arguments.ts';

const LOOK_MS = 250;
const SHARE_OF_HOST = 0.5;
const PLACES = [INSIDE.home, INSIDE.work, '/dev/shm'];

export interface MemoryFilesOptions {
  /** Most bytes of all sandboxes. */
  readonly allowance: number;
  /** Bytes of the sandbox with this first process; 0 once it is gone. */
  readonly usedBy: (pid: number) => number;
}

interface Watched {
  readonly pid: number;
  readonly kill: (reason: string) => void;
  bytes: number;
}

export class MemoryFiles {
  readonly #options: MemoryFilesOptions;
  readonly #watched = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: MemoryFilesOptions = { allowance: totalmem() * SHARE_OF_HOST, usedBy: bytesOf }) {
    this.#options = options;
  }

  /** Watches the sandbox of a process. Returns its bytes as of the last look, and what ends the watch. */
  watch(pid: number, kill: (reason: string) => void): { readonly bytes: () => number; readonly end: () => void } {
    const watched: Watched = { pid, kill, bytes: 0 };
    this.#watched.add(watched);
    this.#timer ??= setInterval(() => this.look(), LOOK_MS).unref();
    return {
      bytes: () => watched.bytes,
      end: () => {
        this.#watched.delete(watched);
        if (this.#watched.size > 0) return;
        clearInterval(this.#timer);
        this.#timer = undefined;
      },
    };
  }

  /** Reads what all sandboxes use, and ends the one with most while they use too much together. */
  look(): void {
    let all = 0;
    for (const watched of this.#watched) {
      watched.bytes = this.#options.usedBy(watched.pid);
      all += watched.bytes;
    }
    if (all <= this.#options.allowance) return;
    const [largest] = [...this.#watched].toSorted((a, b) => b.bytes - a.bytes);
    if (largest === undefined) return;
    const mebibytes = (bytes: number): number => Math.round(bytes / 1024 / 1024);
    largest.kill(
      `its files in memory have ${mebibytes(largest.bytes)} MiB, more than those of any other worker; all together have ${mebibytes(all)} MiB of ${mebibytes(this.#options.allowance)} MiB that this node allows`,
    );
  }
}

function bytesOf(pid: number): number {
  return PLACES.reduce((sum, place) => sum + usedAt(join(`/proc/${pid}/root`, place)), 0);
}

function usedAt(path: string): number {
  try {
    const { blocks, bfree, bsize } = statfsSync(path);
    return (blocks - bfree) * bsize;
  } catch {
    // The sandbox has ended, or is not complete yet.
    return 0;
  }
}
