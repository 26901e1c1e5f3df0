/** The files of a database as a process that was killed, or a host that lost power, leaves them, after each batch. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { completed, idOf, leased, submit } from './jobs.ts';

/** The files at one time; a part that is missing does not exist. */
export interface Files {
  readonly database: Buffer;
  readonly log?: Buffer | undefined;
  readonly mark?: Buffer | undefined;
}

export interface Moment {
  /** The highest acknowledged job. */
  readonly acknowledged: number;
  /** Before the engine marked the batch, and copied the log if that was due. */
  readonly committed: Files;
  readonly after: Files;
}

/** Few pages: the log is used from its start several times. */
const CHECKPOINT_PAGES = 60;

/** Commits batches of one or two jobs, some of which end, and keeps the files after each. */
export async function record(folder: string, batches: number): Promise<Moment[]> {
  const file = join(folder, 'capstan.db');
  const engine = new SqliteEngine({ file, checkpointPages: CHECKPOINT_PAGES });
  const fence = { cell: 0, term: engine.acquire(0, 'owner', 1).term };
  engine.committed();
  const moments: Moment[] = [];
  let seq = 0;
  for (let batch = 1; batch <= batches; batch++) {
    const count = (batch % 2) + 1;
    const ops = Array.from({ length: count }, () => submit(leased(++seq, { endpoint: 'endpoint-a' })));
    engine.commit(fence, batch % 3 === 0 ? [...ops, completed(seq)] : ops);
    const committed = await filesOf(file);
    engine.committed();
    moments.push({ acknowledged: seq, committed, after: await filesOf(file) });
  }
  engine.close();
  return moments;
}

async function filesOf(file: string): Promise<Files> {
  const read = (path: string): Promise<Buffer | undefined> => readFile(path).catch(() => undefined);
  return { database: await readFile(file), log: await read(`${file}-wal`), mark: await read(`${file}-mark`) };
}

/** Writes the files into a folder of their own and passes the path of the database. */
export async function withFiles<T>(folder: string, { database, log, mark }: Files, use: (file: string) => T | Promise<T>): Promise<T> {
  await mkdir(folder, { recursive: true });
  const own = await mkdtemp(join(folder, 'case-'));
  const file = join(own, 'capstan.db');
  try {
    await writeFile(file, database);
    if (log !== undefined) await writeFile(`${file}-wal`, log);
    if (mark !== undefined) await writeFile(`${file}-mark`, mark);
    return await use(file);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** Opens the database as a scheduler does and returns the number of the first acknowledged job that is missing; null if none is. */
export function firstMissing(file: string, acknowledged: number): number | null {
  const engine = new SqliteEngine({ file, mustExist: true });
  try {
    for (let seq = 1; seq <= acknowledged; seq++) if (engine.read('job', 'endpoint-a', idOf(seq)) === null) return seq;
    return null;
  } finally {
    engine.close();
  }
}

export function flip(bytes: Buffer, bit: number): Buffer {
  const flipped = Buffer.from(bytes);
  flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return flipped;
}
