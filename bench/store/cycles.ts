/**
 * Cycles (insert, claim, complete) per second through the store thread, at 1,000 and at 1,000,000 waiting rows, in the
 * batches of group commit: `inFlight` jobs run their cycles at once, and the operations gathered during the commit of
 * one batch form the next. Prints one JSON line per depth (the median round) and one with the ratio of the last depth to
 * the first (median over the rounds, so that a busy moment of the machine affects both sides).
 *
 * With `--postgres` the same runs on an empty PostgreSQL database, in turns with SQLite, and one more line has the ratio
 * of PostgreSQL to SQLite at the first depth. With `--peer`, a folder in which graphile-worker is installed, it takes its turn on the
 * same database, and one more line has the ratio of Capstan's store on PostgreSQL to it.
 *
 * node bench/store/cycles.ts [--depths 1000,1000000] [--in-flight 64] [--seconds 2] [--rounds 7]
 *   [--checkpoint-pages 4000] [--postgres postgres://user@host:port/database] [--peer node_modules/.cache/graphile-worker]
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { openPostgresStore, type PostgresStore } from '../../scheduler/store/postgres/client.ts';
import { openSqliteStore } from '../../scheduler/store/sqlite/client.ts';
import type { Fence, Store } from '../../scheduler/core/ports/store.ts';
import { fill, run, type Queue, type Run } from './closed-loop.ts';
import { startGraphileWorker, type Peer } from './graphile-worker.ts';
import { median } from './load.ts';

const { values } = parseArgs({
  options: {
    depths: { type: 'string', default: '1000,1000000' },
    'in-flight': { type: 'string', default: '64' },
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '7' },
    'checkpoint-pages': { type: 'string', default: '4000' },
    postgres: { type: 'string' },
    peer: { type: 'string' },
  },
});
const depths = values.depths.split(',').map(Number);
const inFlight = Number(values['in-flight']);
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const checkpointPages = Number(values['checkpoint-pages']);

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

async function subjectOf(of: Pick<Subject, 'driver' | 'depth' | 'store' | 'file'>, cell: number): Promise<Subject> {
  const taken = await of.store.acquire(cell, 'bench', 60_000);
  if (!('term' in taken)) throw new Error(`cell ${cell} is held by ${taken.heldBy}`);
  const fence = { cell, term: taken.term };
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
let peer: Peer | undefined;
const peerRates: number[] = [];
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
  if (values.peer !== undefined && values.postgres !== undefined)
    peer = await startGraphileWorker({ folder: values.peer, url: values.postgres, depth: depths[0] ?? 0, inFlight });
  for (let round = 0; round < rounds; round++) {
    for (const one of subjects) one.runs.push(await run({ ...one, inFlight, seconds }));
    if (peer !== undefined) peerRates.push(await peer.cyclesPerSecond(seconds));
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
  if (postgres !== undefined && peerRates.length > 0) {
    const ratio = Math.round(median(postgres.runs.map((each, i) => each.cyclesPerSecond / (peerRates[i] ?? 0))) * 100) / 100;
    const line = { bench: 'store-peer-ratio', peer: 'graphile-worker', inFlight, cyclesPerSecond: median(peerRates), ratio, target: 0.55 };
    console.log(JSON.stringify({ ...line, rounds: peerRates }));
  }
} finally {
  await peer?.close();
  for (const { store } of subjects) await store.close();
  await rm(folder, { recursive: true, force: true });
}
