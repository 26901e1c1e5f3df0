/**
 * A write-ahead log that was damaged after an unclean stop is refused with DATA_LOST, wherever the damage is. What a kill or a
 * power failure leaves is not.
 */
import { readFile, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import fc from 'fast-check';

import { CapstanError } from '../../../lib/errors.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { acceptLoss } from '../../../scheduler/store/sqlite/accept-loss.ts';
import { firstMissing, flip, record, withFiles, type Files, type Moment } from './killed-store.ts';
import { ownFolder } from '../../support/own-folder.ts';
import { FRAME_HEADER_BYTES, HEADER_BYTES, PAGE_BYTES } from '../../../scheduler/store/sqlite/wal/format.ts';

const FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES;
const SECTOR_BYTES = 512;
const BATCHES = 40;
const RUNS = 150;

/** `whole`, `refused`, or what is missing in silence. */
function outcomeOf(file: string, acknowledged: number): string {
  try {
    const missing = firstMissing(file, acknowledged);
    return missing === null ? 'whole' : `job ${missing} is missing`;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'DATA_LOST') return 'refused';
    throw error;
  }
}

function damaged({ after }: Moment, bit: (length: number) => number): Files & { readonly log: Buffer } {
  const { log } = after;
  if (log === undefined) throw new Error('no log');
  return { ...after, log: flip(log, bit(log.length * 8)) };
}

/** Bytes of the log's present use: behind them are frames of an earlier one. */
function usedBytes({ log, mark }: Files): number {
  if (log === undefined || mark === undefined) throw new Error('no log');
  return HEADER_BYTES + mark.readUInt32LE(20) * FRAME_BYTES;
}

let folder: string;
let moments: Moment[];
test.before(async () => {
  folder = await ownFolder('capstan-test');
  moments = await record(join(folder, 'recorded'), BATCHES);
});
test.after.always(() => rm(folder, { recursive: true, force: true }));

const anyMoment = fc.nat({ max: BATCHES - 1 });
const momentAt = (i: number): Moment => moments[i] as Moment;

test('what a killed process leaves is opened', async (t) => {
  for (const { acknowledged, committed, after } of moments)
    for (const files of [committed, after, { ...after, mark: undefined }])
      t.is(await withFiles(folder, files, (file) => outcomeOf(file, acknowledged)), 'whole');
});

test('one flipped bit anywhere in the used log is refused after a kill', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyMoment, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), async (i, at) => {
      const moment = momentAt(i);
      const bits = usedBytes(moment.after) * 8;
      const files = damaged(moment, () => Math.floor(at * bits));
      t.is(await withFiles(folder, files, (file) => outcomeOf(file, moment.acknowledged)), 'refused');
    }),
    { numRuns: RUNS },
  );
});

test('each field of the header and of the first and the last frames is guarded', async (t) => {
  const moment = momentAt(BATCHES - 1);
  const end = usedBytes(moment.after);
  const starts = [0, HEADER_BYTES, HEADER_BYTES + FRAME_BYTES, end - 2 * FRAME_BYTES, end - FRAME_BYTES];
  for (const start of starts)
    for (let byte = 0; byte < HEADER_BYTES; byte += 2) {
      const files = damaged(moment, () => (start + byte) * 8 + (byte % 8));
      t.is(await withFiles(folder, files, (file) => outcomeOf(file, moment.acknowledged)), 'refused', `byte ${start + byte}`);
    }
});

test('without the mark a flipped bit is seen unless it is in the last two transactions', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyMoment, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), async (i, at) => {
      const moment = momentAt(i);
      const before = moments[i - 2];
      // The log was used from its start meanwhile: it has one or two transactions.
      if (before === undefined || usedBytes(before.after) >= usedBytes(moment.after)) return;
      if (before.after.mark?.readUInt32LE(8) !== moment.after.mark?.readUInt32LE(8)) return;
      const bits = usedBytes(before.after) * 8;
      const files = { ...damaged(moment, () => Math.floor(at * bits)), mark: undefined };
      t.is(await withFiles(folder, files, (file) => outcomeOf(file, moment.acknowledged)), 'refused');
    }),
    { numRuns: RUNS },
  );
});

test('a flipped bit behind the used log, or in the mark, loses nothing', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyMoment, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), async (i, at) => {
      const { after, acknowledged } = momentAt(i);
      const used = usedBytes(after) * 8;
      const { log, mark } = after;
      if (log === undefined || mark === undefined) throw new Error('no log');
      const rest = log.length * 8 - used;
      const behind = rest === 0 ? after : { ...after, log: flip(log, used + Math.floor(at * rest)) };
      const marked = { ...after, mark: flip(mark, Math.floor(at * mark.length * 8)) };
      for (const files of [behind, marked]) t.is(await withFiles(folder, files, (file) => outcomeOf(file, acknowledged)), 'whole');
    }),
    { numRuns: RUNS },
  );
});

test('a log that is missing, empty or cut off is refused after a kill', async (t) => {
  const last = moments.findLast(({ after }) => (after.mark?.readUInt32LE(24) ?? 0) < (after.mark?.readUInt32LE(20) ?? 0));
  if (last === undefined) throw new Error('no moment with a log');
  const changes: Readonly<Record<string, (log: string) => Promise<void>>> = {
    missing: (log) => rm(log),
    empty: (log) => truncate(log),
    'cut off': (log) => truncate(log, usedBytes(last.after) - 1),
  };
  for (const [how, change] of Object.entries(changes)) {
    await withFiles(folder, last.after, async (file) => {
      await change(`${file}-wal`);
      t.is(outcomeOf(file, last.acknowledged), 'refused', how);
    });
  }
});

test('what a power failure leaves of the last transaction is opened, with every transaction before it', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: BATCHES - 1 }),
      fc.nat(),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 100 }),
      fc.nat({ max: 3 }),
      async (i, cut, kept, lag) => {
        const before = momentAt(i - 1);
        const log = tornLog(before.after, momentAt(i).committed, kept, cut);
        // The mark was written back some time ago.
        const { mark } = momentAt(Math.max(0, i - 1 - lag)).after;
        const files: Files = { database: before.after.database, log, mark };
        t.is(await withFiles(folder, files, (file) => outcomeOf(file, before.acknowledged)), 'whole');
      },
    ),
    { numRuns: 2 * RUNS },
  );
});

/** The log of which some sectors of the last transaction, in any choice, got to the disk. */
function tornLog(
  { log: synced = Buffer.alloc(0) }: Files,
  { log: written = Buffer.alloc(0) }: Files,
  kept: readonly boolean[],
  cut: number,
): Buffer {
  const torn = Buffer.alloc(Math.max(synced.length, written.length - (cut % (Math.max(0, written.length - synced.length) + 1))));
  synced.copy(torn);
  // SQLite syncs a new header before it writes frames.
  written.copy(torn, 0, 0, HEADER_BYTES);
  for (let at = 0, i = 0; at < torn.length; at += SECTOR_BYTES) {
    const isChanged = !written.subarray(at, at + SECTOR_BYTES).equals(synced.subarray(at, at + SECTOR_BYTES));
    if (isChanged && kept[i++ % kept.length] === true) written.copy(torn, at, at, Math.min(at + SECTOR_BYTES, torn.length));
  }
  return torn;
}

test('an accepted loss leaves every transaction before the damage, and a copy of the log', async (t) => {
  await fc.assert(
    fc.asyncProperty(anyMoment, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), async (i, at) => {
      const moment = momentAt(i);
      const bits = usedBytes(moment.after) * 8;
      const files = damaged(moment, () => Math.floor(at * bits));
      await withFiles(folder, files, async (file) => {
        const accepted = acceptLoss(file, 'now');
        t.deepEqual(accepted?.problems, []);
        t.deepEqual(await readFile(accepted?.kept ?? ''), files.log);
        t.is(acceptLoss(file, 'later'), null, 'once');
        const engine = new SqliteEngine({ file, mustExist: true });
        const highest = engine.read('highest').seq;
        engine.close();
        t.true(highest <= moment.acknowledged);
        // The database has all of the log.
        if (files.mark?.readUInt32LE(24) === files.mark?.readUInt32LE(20)) t.is(highest, moment.acknowledged);
        t.is(outcomeOf(file, highest), 'whole');
      });
    }),
    { numRuns: RUNS / 3 },
  );
});
