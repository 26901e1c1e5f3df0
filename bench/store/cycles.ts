/**
 * Cycles (insert, claim, complete) per second through the store thread, at 1,000 and at 1,000,000 waiting rows, in the
 * batches of group commit: `inFlight` jobs run their cycles at once, and the operations gathered during the commit of
 * one batch form the next. Prints one JSON line per depth (the median round) and one with the ratio of the last depth to
 * the first (median over the rounds, so that a busy moment of the machine affects both sides).
 *
 * With `--postgres` the same runs on an empty PostgreSQL database, in turns with SQLite, and one more line has the ratio
 * of PostgreSQL to SQLite at the first depth.
 *
 * node bench/store/cycles.ts [--depths 1000,1000000] [--in-flight 64] [--seconds 2] [--rounds 7]
 *   [--checkpoint-pages 4000] [--postgres postgres://user@host:port/database]
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { openPostgresStore, type PostgresStore } from '../../scheduler/store/postgres/client.ts';
import { openSqliteStore } from '../../scheduler/store/sqlite/client.ts';
import type { Fence, Op, Store } from '../../scheduler/store/store.ts';
import { finishOp, leaseOp, median, submitOp } from './load.ts';

const { values } = parseArgs({
  options: {
    depths: { type: 'string', default: '1000,1000000' },
    'in-flight': { type: 'string', default: '64' },
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '7' },
    'checkpoint-pages': { type: 'string', default: '4000' },
    postgres: { type: 'string' },
  },
});
const depths = values.depths.split(',').map(Number);
const inFlight = Number(values['in-flight']);
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const checkpointPages = Number(values['checkpoint-pages']);

/** Position in the queue of one store. */
interface Queue {
  /** Next number to submit. */
  tail: number;
  /** Next number to lease: the oldest waiting job. */
  head: number;
}

async function fill(store: Store, fence: Fence, queue: Queue, depth: number): Promise<void> {
  const now = Date.now();
  const batch = 1_000;
  while (queue.tail - queue.head < depth) {
    const ops: Op[] = [];
    for (let i = 0; i < batch && queue.tail - queue.head < depth; i++) ops.push(submitOp(queue.tail++, now));
    await store.commit(fence, ops);
  }
}

interface Run {
  readonly cyclesPerSecond: number;
  readonly opsPerSecond: number;
  readonly opsPerBatch: number;
  /** Duration of one batch, from the call to its outcome. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /**
   * CPU time of the main thread alone, µs per operation, including the time in which this load creates the operations.
   */
  readonly mainCpuUsPerOp: number;
}

/**
 * `inFlight` jobs each go through submit → lease → finish. The next step starts when the outcome of the previous one
 * has arrived. A lease takes the oldest waiting job, so the depth stays constant.
 */
async function run(store: Store, fence: Fence, queue: Queue): Promise<Run> {
  let waiting: Op[] = [];
  let joined = 0;
  let cycles = 0;
  let ops = 0;
  const times: number[] = [];
  const cpuStart = process.threadCpuUsage();
  const start = performance.now();
  const end = start + seconds * 1_000;
  while (performance.now() < end) {
    // A third of the jobs joins with each of the first batches, so that later batches hold all three steps, as in a
    // scheduler.
    for (let i = 0; i < inFlight / 3 && joined < inFlight; i++, joined++) waiting.push(submitOp(queue.tail++, Date.now()));
    const batch = waiting;
    waiting = [];
    const posted = performance.now();
    const outcomes = await store.commit(fence, batch);
    times.push(performance.now() - posted);
    const now = Date.now();
    ops += batch.length;
    for (const [i, op] of batch.entries()) {
      const outcome = outcomes[i]?.kind ?? 'left out';
      if (outcome !== 'ok') throw new Error(`${op.kind} was refused: ${outcome}`);
      if (op.kind === 'submit') {
        waiting.push(leaseOp(queue.head++));
      } else if (op.kind === 'lease') {
        waiting.push(finishOp(op.seq, now));
      } else {
        cycles++;
        waiting.push(submitOp(queue.tail++, now));
      }
    }
  }
  const elapsed = (performance.now() - start) / 1_000;
  const cpu = process.threadCpuUsage(cpuStart);
  // Finishes all jobs in progress, so that the next round finds a queue without gaps.
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    await store.commit(fence, batch);
    for (const op of batch) if (op.kind === 'lease') waiting.push(finishOp(op.seq, Date.now()));
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => Math.round((times[Math.floor((times.length - 1) * share)] ?? 0) * 100) / 100;
  return {
    cyclesPerSecond: Math.round(cycles / elapsed),
    opsPerSecond: Math.round(ops / elapsed),
    opsPerBatch: Math.round(ops / times.length),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    mainCpuUsPerOp: Math.round(((cpu.user + cpu.system) / ops) * 100) / 100,
  };
}

/** A store under measurement. */
interface Subject {
  readonly driver: 'sqlite' | 'postgres';
  readonly depth: number;
  readonly store: Store;
  readonly fence: Fence;
  readonly queue: Queue;
  readonly runs: Run[];
  /** Of SQLite, for the size of its log. */
  readonly file: string | undefined;
}

async function subjectOf(of: Pick<Subject, 'driver' | 'depth' | 'store' | 'file'>, shard: number): Promise<Subject> {
  const taken = await of.store.acquire(shard, 'bench', 60_000);
  if (!('term' in taken)) throw new Error(`shard ${shard} is held by ${taken.heldBy}`);
  const fence = { shard, term: taken.term };
  const queue = { tail: 1, head: 1 };
  await fill(of.store, fence, queue, of.depth);
  return { ...of, fence, queue, runs: [] };
}

const rateOf = ({ runs }: Subject): number => median(runs.map((each) => each.cyclesPerSecond));

/** Median over the rounds of the rate of one subject to that of another in the same round. */
function ratioOf(one: Subject, other: Subject): number {
  const ratios = other.runs.map((run, i) => (one.runs[i]?.cyclesPerSecond ?? 0) / run.cyclesPerSecond);
  return Math.round(median(ratios) * 100) / 100;
}

const folder = await mkdtemp(join(tmpdir(), 'capstan-cycles-'));
const subjects: Subject[] = [];
try {
  let first: PostgresStore | undefined;
  for (const depth of depths) {
    const file = join(folder, `depth-${depth}.db`);
    subjects.push(await subjectOf({ driver: 'sqlite', depth, file, store: await openSqliteStore({ file, checkpointPages }) }, 0));
    if (values.postgres === undefined) continue;
    const address = { url: values.postgres, setting: '--postgres' };
    const store = await openPostgresStore(
      first === undefined ? address : { ...address, cell: (await first.cells.create(`depth-${depth}`)).name },
    );
    first ??= store;
    subjects.push(await subjectOf({ driver: 'postgres', depth, file: undefined, store }, store.cell));
  }
  for (let round = 0; round < rounds; round++) {
    for (const one of subjects) one.runs.push(await run(one.store, one.fence, one.queue));
  }
  for (const one of subjects) {
    const rate = rateOf(one);
    const shown = one.runs.find((each) => each.cyclesPerSecond === rate);
    const walMb = one.file === undefined ? undefined : Math.round((await stat(`${one.file}-wal`)).size / 1e5) / 10;
    const { driver, depth } = one;
    console.log(
      JSON.stringify({
        bench: 'store-cycles',
        driver,
        depth,
        inFlight,
        ...shown,
        walMb,
        rounds: one.runs.map((each) => each.cyclesPerSecond),
      }),
    );
  }
  const shallow = subjects.filter(({ depth }) => depth === depths[0]);
  for (const first of shallow) {
    const last = subjects.findLast(({ driver }) => driver === first.driver);
    if (last === undefined || last === first) continue;
    console.log(JSON.stringify({ bench: 'store-depth-ratio', driver: first.driver, depths, ratio: ratioOf(last, first), target: 0.8 }));
  }
  const [sqlite, postgres] = shallow;
  if (sqlite !== undefined && postgres !== undefined)
    console.log(
      JSON.stringify({ bench: 'store-driver-ratio', depth: sqlite.depth, inFlight, ratio: ratioOf(postgres, sqlite), target: 0.45 }),
    );
} finally {
  for (const { store } of subjects) await store.close();
  await rm(folder, { recursive: true, force: true });
}
