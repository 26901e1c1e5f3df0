/** A damaged SQLite queue: the scheduler ends with the exit code after which nothing restarts it, and says what to do; so does `doctor`. */
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { errorTable } from '../../lib/errors.ts';
import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import { PAGE_BYTES } from '../../scheduler/store/sqlite/wal/format.ts';
import { run } from '../cli/fakes/run.ts';
import { flip } from '../conformance/store/killed-store.ts';
import { folderOf } from '../support/folder.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const JOBS = 30;

/** The data folder of a scheduler that was killed after it had accepted jobs. */
async function killed(t: ExecutionContext): Promise<string> {
  const scheduler = await TestScheduler.open({ rateLimits: 'run=0/0,status=0/0' });
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo' }]);
  const channel = scheduler.channel();
  const job = { kind: JobKind.RUN, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 };
  const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
  for (let i = 0; i < JOBS; i++)
    await channel.ask(endpoints[0]?.id ?? '', { $case: 'submit', value: { ...job, jobId: `job-${i}`, input } });
  const copy = join(await folderOf(t), 'data');
  await cp(scheduler.dataDir, copy, { recursive: true, preserveTimestamps: true });
  return copy;
}

const startIn = (dataDir: string) => run([bin, 'scheduler', '--data-dir', dataDir], { env: { CAPSTAN_GRPC_PORT: '0' } });

/** Starts a scheduler on the folder and stops it once it serves. */
async function serves(t: ExecutionContext, dataDir: string): Promise<void> {
  const scheduler = startIn(dataDir);
  await scheduler.hear(/scheduler started/);
  scheduler.child.kill('SIGTERM');
  t.is(await scheduler.ended, 0, scheduler.stderr());
}

test('a flipped bit in the log of a killed scheduler: nothing starts until an operator decides', async (t) => {
  const dataDir = await killed(t);
  const log = join(dataDir, 'scheduler/capstan.db-wal');
  const damaged = flip(await readFile(log), 8 * (PAGE_BYTES * 20 + 100));
  await writeFile(log, damaged);

  for (let i = 0; i < 2; i++) {
    const scheduler = startIn(dataDir);
    t.is(await scheduler.ended, errorTable.DATA_LOST.exit, scheduler.stderr());
    t.regex(scheduler.stderr(), /the write-ahead log is damaged.*acknowledged jobs or results are missing.*capstan store accept-loss/s);
    t.deepEqual(await readFile(log), damaged, 'the log stays as it is');
  }
  const doctor = run([bin, 'doctor', '--json', '--data-dir', dataDir]);
  await doctor.ended;
  const findings = JSON.parse(doctor.stdout()) as { name: string; verdict: string; hint: string }[];
  t.like(
    findings.find(({ name }) => name === 'queue'),
    { verdict: 'fault', hint: 'Restore a backup, or go on without them: capstan store accept-loss (docs/backup.md).' },
  );

  const accept = run([bin, 'store', 'accept-loss', '--json', '--data-dir', dataDir]);
  t.is(await accept.ended, 0, accept.stderr());
  const { kept, problems } = JSON.parse(accept.stdout()) as { kept: string; problems: string[] };
  t.deepEqual(problems, []);
  t.deepEqual(await readFile(kept), damaged);
  await serves(t, dataDir);
});

test('what a killed scheduler leaves is not refused', async (t) => {
  const dataDir = await killed(t);
  const accept = run([bin, 'store', 'accept-loss', '--data-dir', dataDir]);
  t.is(await accept.ended, 0, accept.stderr());
  t.regex(accept.stderr(), /Nothing is missing/);
  await serves(t, dataDir);
});

for (const tree of ['inputs', 'sqlite_autoindex_jobs_1', 'idempotency', 'control']) {
  test(`a damaged page of ${tree}`, async (t) => {
    const dataDir = await killed(t);
    await serves(t, dataDir);
    const file = join(dataDir, 'scheduler/capstan.db');
    const db = new Database(file, { readonly: true });
    const page = db.prepare<[string], number>('SELECT max(pageno) FROM dbstat WHERE name = ?').pluck().get(tree) ?? 0;
    db.close();
    const bytes = await readFile(file);
    bytes.fill(0, (page - 1) * PAGE_BYTES, page * PAGE_BYTES);
    await writeFile(file, bytes);
    const scheduler = startIn(dataDir);
    t.is(await scheduler.ended, errorTable.DATA_LOST.exit, scheduler.stderr());
    t.regex(scheduler.stderr(), /the file is damaged/);
    t.regex(scheduler.stderr(), /Restore the data folder from a backup/);
  });
}
