/** Reads everything take-over needs, page by page. */
import type { StoredState } from '../core/step/restore.ts';
import { controlKinds, type ControlKind, type ControlRow, type JobRow, type Reads } from '../core/ports/store.ts';
import type { Completion, LoopStore } from './loop-store.ts';

const PAGE_SIZE = 500;

/** One pending read of the store. */
interface ReadCall<K extends keyof Reads = keyof Reads> {
  readonly query: K;
  readonly args: Parameters<Reads[K]>;
}

/** A routine that reads: it yields each call, and is resumed with its result. */
type Reading<T> = Generator<ReadCall, T, unknown>;

/** Reads the state that a store holds. */
export function readState(store: LoopStore, completion: Completion<StoredState>): void {
  resume(store, readAll(), undefined, completion);
}

function resume<T>(store: LoopStore, reading: Reading<T>, result: unknown, completion: Completion<T>): void {
  const next = reading.next(result);
  if (next.done === true) {
    completion.done(next.value);
    return;
  }
  const { query, args } = next.value;
  store.read(query, args, { done: (rows) => resume(store, reading, rows, completion), failed: completion.failed });
}

function* readAll(): Reading<StoredState> {
  const control: ControlRow[] = [];
  for (const kind of controlKinds) control.push(...(yield* allControl(kind)));
  return {
    control,
    counts: yield* read('counts'),
    leased: yield* allLeased(),
    highest: yield* read('highest'),
    bodies: yield* read('bodyUsage'),
  };
}

function* allControl(kind: ControlKind): Reading<ControlRow[]> {
  const rows: ControlRow[] = [];
  for (let after = ''; ;) {
    const page = yield* read('control', kind, after, PAGE_SIZE);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_SIZE) return rows;
    after = last.key;
  }
}

function* allLeased(): Reading<JobRow[]> {
  const rows: JobRow[] = [];
  for (let after = 0; ;) {
    const page = yield* read('leased', after, PAGE_SIZE);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_SIZE) return rows;
    after = last.seq;
  }
}

function* read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Reading<ReturnType<Reads[K]>> {
  // The store returns the type of the query; a generator has one type for all results.
  return (yield { query, args }) as ReturnType<Reads[K]>;
}
