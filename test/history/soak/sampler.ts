/** Samples memory, open descriptors and stored bytes of every part at a fixed interval, and tells how fast each grows. */
import { readdirSync } from 'node:fs';
import { lstat, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../../lib/to-error.ts';
import { residentOf } from '../../../bench/processes.ts';
import { lastHalf, slope, type Sample } from '../core/slope.ts';
import type { HistoryStack } from '../stack/stack.ts';

const INTERVAL_MS = 10_000;
const MIB = 1 << 20;
/** What memory may grow by, MiB a minute. */
export const AIM = 0.1;

type Figure = 'resident MiB' | 'heap MiB' | 'descriptors' | 'stored MiB';

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

  /** A line for each part and figure: first, last, and the slope over the last half of the time. */
  report(): string[] {
    const lines = ['part | figure | first | last | slope a minute, last half'];
    for (const [part, figures] of this.#series)
      for (const [figure, samples] of figures) {
        const growth = slope(lastHalf(samples));
        const over = figure.startsWith('resident') && growth > AIM ? ` (aim: under ${AIM})` : '';
        const [first, last] = [samples.at(0)?.value ?? 0, samples.at(-1)?.value ?? 0];
        lines.push(`${part} | ${figure} | ${first.toFixed(1)} | ${last.toFixed(1)} | ${growth.toFixed(3)}${over}`);
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
      figures.set(figure, [...(figures.get(figure) ?? []), { minute, value }]);
    };
    for (const [name, { pid, plan }] of this.#stack.parts) {
      if (pid === undefined) continue;
      note(name, 'resident MiB', residentOf(pid).now / MIB);
      note(name, 'descriptors', openDescriptors(pid));
      note(name, 'stored MiB', (await storedBytes(plan.folder)) / MIB);
    }
    const hosts = this.#stack.hosts();
    note('worker hosts', 'resident MiB', hosts.reduce((sum, { pid }) => sum + residentOf(pid).now, 0) / MIB);
    for (const [name, bytes] of await this.#heaps()) note(name, 'heap MiB', bytes / MIB);
  }

  /** Heaps of the parts that tell: each gateway its own, and the first one the scheduler's as well. */
  async #heaps(): Promise<[string, number][]> {
    const found: [string, number][] = [];
    for (const [i, gateway] of this.#stack.gateways.entries()) {
      const response = await fetch(`${this.#stack.url(gateway)}/metrics`);
      const text = await response.text();
      const read = (part: string): number =>
        Number(new RegExp(`^capstan_${part}_nodejs_heap_size_used_bytes (\\S+)$`, 'm').exec(text)?.[1]);
      found.push([gateway, read('gateway')]);
      if (i === 0) found.push(['scheduler', read('scheduler')]);
    }
    return found.filter(([, bytes]) => !Number.isNaN(bytes));
  }
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
