/** The outcome of the check: a table for people and a document for programs. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface Row {
  readonly check: string;
  readonly result: 'pass' | 'fail' | 'skip';
  /** What was measured; of a skipped check the reason. */
  readonly value: string;
  /** What it must be. */
  readonly bar: string;
}

export class Report {
  readonly #rows: Row[] = [];
  readonly #facts: Record<string, unknown> = {};

  /** Adds a result, and prints it at once: a check that is cut off shows how far it came. */
  add(check: string, passed: boolean, value: string, bar: string): void {
    this.#row({ check, result: passed ? 'pass' : 'fail', value, bar });
  }

  skip(check: string, reason: string): void {
    this.#row({ check, result: 'skip', value: reason, bar: '' });
  }

  /** Runs a check; what it throws is its failure. */
  async run(check: string, bar: string, act: () => Promise<{ readonly passed: boolean; readonly value: string }>): Promise<void> {
    try {
      const { passed, value } = await act();
      this.add(check, passed, value, bar);
    } catch (error) {
      this.add(check, false, error instanceof Error ? error.message : String(error), bar);
    }
  }

  /** Keeps a fact for the document alone. */
  fact(name: string, value: unknown): void {
    this.#facts[name] = value;
  }

  get failed(): number {
    return this.#rows.filter(({ result }) => result === 'fail').length;
  }

  /** Writes `gpu-check.json` into the folder. */
  async write(folder: string): Promise<string> {
    const path = join(folder, 'gpu-check.json');
    await writeFile(path, `${JSON.stringify({ at: new Date().toISOString(), ...this.#facts, rows: this.#rows }, null, 2)}\n`);
    return path;
  }

  #row(row: Row): void {
    this.#rows.push(row);
    const mark = { pass: '✓', fail: '✗', skip: '-' }[row.result];
    const bar = row.bar === '' ? '' : `  (${row.bar})`;
    console.log(`${mark} ${row.check.padEnd(44)} ${row.value}${bar}`);
  }
}
