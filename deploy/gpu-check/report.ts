/** The outcome of the check: a table for people and a document for programs. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Row {
  readonly check: string;
  readonly result: 'pass' | 'fail' | 'skip';
  /** What was measured; of a skipped check the reason. */
  readonly value: string;
  /** What it must be. */
  readonly bar: string;
  /** How long it took, s. */
  readonly seconds?: number;
}

export interface Measured {
  readonly passed: boolean;
  readonly value: string;
}

export interface ReportOptions {
  /** Path of the document. */
  readonly file: string;
  /** Time that is left for the whole check, ms. */
  readonly left: () => number;
  /** Ends what a check that ran out of time has begun. */
  readonly abandon: () => Promise<void>;
}

/** Kept from the end of the time for stopping the service, ms. */
const RESERVED_MS = 10_000;

export class Report {
  readonly file: string;
  readonly #options: ReportOptions;
  readonly #rows: Row[] = [];
  readonly #facts: Record<string, unknown> = {};
  #isClosed = false;

  constructor(folder: string, options: Omit<ReportOptions, 'file'>) {
    this.file = join(folder, 'gpu-check.json');
    this.#options = { ...options, file: this.file };
    this.#write();
  }

  /** Adds a result, prints it and writes the document at once: a check that is cut off shows how far it came. */
  add(check: string, passed: boolean, value: string, bar: string): void {
    this.#row({ check, result: passed ? 'pass' : 'fail', value, bar });
  }

  skip(check: string, reason: string): void {
    this.#row({ check, result: 'skip', value: reason, bar: '' });
  }

  /** Runs a check for at most `limitS` seconds; what it throws is its failure, and so is a time that is over. */
  async run(check: string, bar: string, limitS: number, act: () => Promise<Measured>): Promise<void> {
    const limit = Math.min(limitS * 1_000, this.#options.left() - RESERVED_MS);
    if (limit <= 0) {
      this.add(check, false, 'not run: the time of the whole check is over', bar);
      return;
    }
    const begun = performance.now();
    const { passed, value, isLate } = await within(act, limit);
    this.#row({ check, result: passed ? 'pass' : 'fail', value, bar, seconds: Math.round((performance.now() - begun) / 100) / 10 });
    if (isLate) await this.#options.abandon();
  }

  /** Takes no more rows: what fails from now on fails because the check ends. */
  close(): void {
    this.#isClosed = true;
  }

  /** Keeps a fact for the document alone. */
  fact(name: string, value: unknown): void {
    this.#facts[name] = value;
    this.#write();
  }

  get failed(): number {
    return this.#rows.filter(({ result }) => result === 'fail').length;
  }

  #row(row: Row): void {
    if (this.#isClosed) return;
    this.#rows.push(row);
    const mark = { pass: '✓', fail: '✗', skip: '-' }[row.result];
    const bar = row.bar === '' ? '' : `  (${row.bar})`;
    console.log(`${mark} ${row.check.padEnd(44)} ${row.value}${bar}`);
    this.#write();
  }

  #write(): void {
    writeFileSync(this.#options.file, `${JSON.stringify({ at: new Date().toISOString(), ...this.#facts, rows: this.#rows }, null, 2)}\n`);
  }
}

async function within(act: () => Promise<Measured>, limitMs: number): Promise<Measured & { readonly isLate: boolean }> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Measured & { isLate: boolean }>((resolve) => {
    timer = setTimeout(resolve, limitMs, { passed: false, value: `not within ${(limitMs / 1_000).toFixed(0)} s`, isLate: true });
  });
  const done = (async () => ({ ...(await act()), isLate: false }))().catch((error: unknown) => ({
    passed: false,
    value: error instanceof Error ? error.message : String(error),
    isLate: false,
  }));
  try {
    return await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
  }
}
