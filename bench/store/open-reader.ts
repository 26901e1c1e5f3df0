/**
 * The store on PostgreSQL while another session holds a snapshot open, as a backup or a forgotten console does: rows that changed or went
 * cannot be cleaned up meanwhile. Jobs go through submit, lease, finish and removal in a closed loop. Prints one JSON line with the
 * rate of each window to that before the snapshot; the durations of the reads of a queue's head, of due and of leased jobs and of due
 * webhooks; and the durations of the first reads of a scheduler that takes the cell over, which does not know where the live rows of the
 * indexes begin.
 *
 * node bench/store/open-reader.ts --postgres postgres://user@host:port/database [--minutes 10] [--window-seconds 20] [--in-flight 64] [--webhooks]
 */
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Client } from 'pg';

import { openPostgresStore } from '../../scheduler/store/postgres/client.ts';
import type { Store } from '../../scheduler/core/ports/store.ts';
import { fill, run } from './closed-loop.ts';

/** Waiting jobs throughout. */
const DEPTH = 1_000;
/** Between two reads, ms. */
const READ_EVERY_MS = 200;

const { values } = parseArgs({
  options: {
    postgres: { type: 'string' },
    minutes: { type: 'string', default: '10' },
    'window-seconds': { type: 'string', default: '20' },
    'in-flight': { type: 'string', default: '64' },
    webhooks: { type: 'boolean', default: false },
  },
});
if (values.postgres === undefined) throw new Error('--postgres must be the address of an empty database');
const seconds = Number(values['window-seconds']);
const windows = Math.max(1, Math.round((Number(values.minutes) * 60) / seconds));

/** Durations of the reads that a scheduler makes from the left end of an index, ms. */
const times: Record<'head' | 'due' | 'leased' | 'deliveries', number[]> = { head: [], due: [], leased: [], deliveries: [] };
async function readOn(store: Store, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const endpoint = 'x7k2m9q4w1';
    const reads = {
      head: () => store.read('head', { endpoint, priority: 0, after: 0, limit: 64, inputLimit: 65_536 }),
      due: () => store.read('due', Date.now(), 50),
      leased: () => store.read('leased', 0, 500),
      deliveries: () => store.read('deliveries', { wall: Date.now(), skipHosts: [], skipIds: [], perHost: 10, limit: 50 }),
    };
    for (const name of ['head', 'due', 'leased', 'deliveries'] as const) {
      const from = performance.now();
      await reads[name]();
      times[name].push(performance.now() - from);
    }
    await pause(READ_EVERY_MS);
  }
}

const since = (from: number): number => Math.round(performance.now() - from);

/** Durations of the first reads of a new owner, ms. */
async function takeOver(url: string): Promise<{ readonly leased: number; readonly counts: number }> {
  const next = await openPostgresStore({ url });
  try {
    await next.acquire(next.cell, 'next', 60_000);
    const from = performance.now();
    await next.read('leased', 0, 500);
    const leased = since(from);
    await next.read('counts');
    return { leased, counts: since(from) - leased };
  } finally {
    await next.close();
  }
}

const p99 = (of: number[]): number => Math.round((of.sort((a, b) => a - b)[Math.floor((of.length - 1) * 0.99)] ?? 0) * 100) / 100;

const store = await openPostgresStore({ url: values.postgres });
const reader = new Client({ connectionString: values.postgres });
try {
  const taken = await store.acquire(store.cell, 'bench', 60_000);
  if (!('term' in taken)) throw new Error(`the cell is held by ${taken.heldBy}`);
  const fence = { cell: store.cell, term: taken.term };
  const queue = { tail: 1, head: 1 };
  await fill(store, fence, queue, DEPTH);
  const loop = { store, fence, queue, inFlight: Number(values['in-flight']), seconds, removes: true, webhooks: values.webhooks };
  await run(loop); // warms up
  const { cyclesPerSecond: before } = await run(loop);
  await reader.connect();
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await reader.query('SELECT count(*) FROM capstan.jobs');
  const ended = new AbortController();
  const reading = readOn(store, ended.signal);
  const rates: number[] = [];
  for (let i = 0; i < windows; i++) rates.push((await run(loop)).cyclesPerSecond);
  ended.abort();
  await reading;
  await store.release(store.cell);
  const takeOverMs = await takeOver(values.postgres);
  const ratio = (rate = 0): number => Math.round((rate / before) * 100) / 100;
  console.log(
    JSON.stringify({
      bench: 'store-open-reader',
      webhooks: values.webhooks,
      minutes: (windows * seconds) / 60,
      before,
      ratios: rates.map(ratio),
      last: ratio(rates.at(-1)),
      target: 0.55,
      p99Ms: { head: p99(times.head), due: p99(times.due), leased: p99(times.leased), deliveries: p99(times.deliveries) },
      targetP99Ms: 50,
      takeOverMs,
    }),
  );
} finally {
  await reader.end();
  await store.close();
}
