/** Samples memory, open descriptors and stored bytes of every part and worker host at a fixed interval, and reports how fast each grows. */
import { readdirSync } from 'node:fs';
import { lstat, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../../lib/to-error.ts';
import { residentOf } from '../../../bench/processes.ts';
import { floorGrowth, lastHalf, slope, type Sample } from '../core/slope.ts';
import type { HistoryStack } from '../stack/stack.ts';

const INTERVAL_MS = 10_000;
const MIB = 1 << 20;
/** What the floor of resident memory, and the live heap, may grow by, MiB a minute. */
export const AIM = 0.1;

type Figure = 'resident MiB' | 'live heap MiB' | 'descriptors' | 'stored MiB' | 'count';

export class Sampler {
  readonly #stack: HistoryStack;
  readonly #series = new Map<string, Map<Figure, Sample[]>>();
  readonly #startedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #sampling: Promise<void> = Promise.resolve();

  constructor(stack: HistoryStack) {
    this.#stack = stack;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#sampling = this.#sampling.then(() => this.#sample());
    }, INTERVAL_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sampling;
  }

  /**
   * A line for each series: first, last, the slope over the last half of the time, and the growth of the floor. The aim is held against the floor of
   * everything that lived for at least half of the run: what has just started warms up.
   */
  report(): string[] {
    const lines = ['part | figure | minutes | first | last | slope a minute, last half | floor a minute, last two thirds'];
    const length = Math.max(0, ...[...this.#series.values()].flatMap((figures) => [...figures.values()].map(minutesOf)));
    for (const [part, figures] of this.#series)
      for (const [figure, samples] of figures) {
        const minutes = minutesOf(samples);
        const floor = floorGrowth(samples);
        const judged = (figure === 'resident MiB' || figure === 'live heap MiB') && minutes >= length / 2;
        const over = judged && floor > AIM ? ` (aim: under ${AIM})` : '';
        const values = [samples.at(0)?.value ?? 0, samples.at(-1)?.value ?? 0].map((value) => value.toFixed(1));
        const growths = [slope(lastHalf(samples)), floor].map((value) => value.toFixed(3));
        lines.push(`${[part, figure, minutes.toFixed(0), ...values, ...growths].join(' | ')}${over}`);
      }
    return lines;
  }

  /** All samples as JSON. */
  async write(path: string): Promise<void> {
    const series = [...this.#series].map(([part, figures]) => [part, Object.fromEntries(figures)]);
    await writeFile(path, JSON.stringify(Object.fromEntries(series)));
  }

  async #sample(): Promise<void> {
    const minute = (performance.now() - this.#startedAt) / 60_000;
    const note = (part: string, figure: Figure, value: number): void => {
      const figures = this.#series.get(part) ?? new Map<Figure, Sample[]>();
      this.#series.set(part, figures);
      const samples = figures.get(figure) ?? [];
      figures.set(figure, samples);
      samples.push({ minute, value });
    };
    for (const [name, { pid, plan }] of this.#stack.parts) {
      if (pid === undefined) continue;
      noteResident(note, name, pid);
      note(name, 'descriptors', openDescriptors(pid));
      note(name, 'stored MiB', (await storedBytes(plan.folder)) / MIB);
      const heap = this.#stack.liveHeap(name);
      if (heap !== undefined) note(name, 'live heap MiB', heap / MIB);
    }
    // Each by itself: a sum follows their number.
    const hosts = this.#stack.hosts();
    for (const { pid } of hosts) noteResident(note, `worker host ${pid}`, pid);
    note('worker hosts', 'count', hosts.length);
  }
}

function minutesOf(samples: readonly Sample[]): number {
  return (samples.at(-1)?.minute ?? 0) - (samples.at(0)?.minute ?? 0);
}

/** A process that has just ended has no memory, which is no sample. */
function noteResident(note: (part: string, figure: Figure, value: number) => void, part: string, pid: number): void {
  const resident = residentOf(pid).now;
  if (resident > 0) note(part, 'resident MiB', resident / MIB);
}

function openDescriptors(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch (error) {
    // It has just ended.
    if (isErrno(error, 'ENOENT', 'ESRCH')) return 0;
    throw error;
  }
}

async function storedBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(ifThere);
  let bytes = 0;
  for (const entry of entries ?? []) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += await storedBytes(path);
    else bytes += (await lstat(path).catch(ifThere))?.size ?? 0;
  }
  return bytes;
}

/** What is removed while it is counted counts nothing. */
function ifThere(error: unknown): undefined {
  if (!isErrno(error, 'ENOENT')) throw error;
  return undefined;
}
