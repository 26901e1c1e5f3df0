/** What must hold of a load, whatever was killed under it: acknowledged means durable, and recorded exactly once. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import type { ExecutionContext } from 'ava';
import SQLite from 'better-sqlite3';

import type { Health, Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import type { Acknowledged, Load } from './load.ts';

const READERS = 8;
const ASKED_AGAIN = 50;

/** While the stack runs: every acknowledged job ends COMPLETED with its own output, and its record never changes after that. */
export async function expectAllCompleted(t: ExecutionContext, stack: Stack, endpoint: string, load: Load): Promise<void> {
  const jobs = load.acknowledged;
  t.is(new Set(jobs.map((job) => job.id)).size, jobs.length, 'no two submissions were acknowledged under one id');
  const health = await until('nothing waits or runs any more', async () => {
    const now = await stack.health(endpoint);
    return now.jobs.inQueue === 0 && now.jobs.inProgress === 0 ? now : null;
  });
  const wrong: string[] = [];
  await forAll(jobs, async (job) => {
    const document = await load.status(job.id);
    // What a wait was answered before the last kill must be what the queue says today.
    if (job.ended !== null && !isDeepStrictEqual(document, job.ended)) {
      wrong.push(`changed after its end: ${JSON.stringify(job.ended)} became ${JSON.stringify(document)}`);
    }
    const right = document.status === 'COMPLETED' && isDeepStrictEqual(document.output, job.input);
    if (!right) wrong.push(`input ${JSON.stringify(job.input)}, record ${JSON.stringify(document)}`);
    job.ended = document;
  });
  t.deepEqual(wrong.slice(0, 10), []);
  expectCounts(t, health, load);
}

/** Every kept Idempotency-Key still leads to the job that was acknowledged under it. */
export async function expectKeysKept(t: ExecutionContext, load: Load): Promise<void> {
  const keyed = load.acknowledged.filter((job) => job.key !== null);
  const sample = keyed.filter((_job, i) => i % Math.ceil(keyed.length / ASKED_AGAIN) === 0);
  const answers = await Promise.all(sample.map((job) => load.again(job)));
  t.deepEqual(
    answers,
    sample.map((job) => job.id),
  );
}

/**
 * After the stack's end: one row a job in the store, each COMPLETED or as in `ends` (by id), and not one job more
 * than the load's, those of `ends` and `others`.
 */
export function expectStored(
  t: ExecutionContext,
  stack: Stack,
  load: Load,
  others = 0,
  ends: ReadonlyMap<string, string> = new Map(),
): void {
  const db = new SQLite(join(stack.dataDir, 'scheduler/capstan.db'), { readonly: true });
  try {
    t.is(db.pragma('integrity_check', { simple: true }), 'ok');
    const rows = db.prepare('SELECT id, state FROM jobs').all() as { id: string; state: string }[];
    t.deepEqual(
      rows.filter((row) => row.state !== (ends.get(row.id) ?? 'COMPLETED')),
      [],
    );
    const stored = new Set(rows.map((row) => row.id));
    t.deepEqual(
      load.acknowledged.filter((job) => !stored.has(job.id)),
      [],
    );
    t.deepEqual(
      [...ends.keys()].filter((id) => !stored.has(id)),
      [],
    );
    expectNumberOfJobs(t, rows.length - ends.size - others, load);
  } finally {
    db.close();
  }
}

/** A result recorded twice, or a job made twice, would be counted twice. */
function expectCounts(t: ExecutionContext, { jobs }: Health, load: Load): void {
  t.is(jobs.failed, 0);
  expectNumberOfJobs(t, jobs.completed, load);
}

function expectNumberOfJobs(t: ExecutionContext, count: number, load: Load): void {
  const acknowledged = load.acknowledged.length;
  t.true(
    count >= acknowledged && count <= acknowledged + load.lost,
    `${count} jobs, where ${acknowledged} were acknowledged and ${load.lost} may be`,
  );
}

async function forAll(jobs: readonly Acknowledged[], look: (job: Acknowledged) => Promise<void>): Promise<void> {
  const rest = jobs.values();
  await Promise.all(
    Array.from({ length: READERS }, async () => {
      for (const job of rest) await look(job);
    }),
  );
}
