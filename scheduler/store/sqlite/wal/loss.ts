/** Finds out, before SQLite opens a database, whether acknowledged batches are missing from its write-ahead log. */
import { statSync } from 'node:fs';

import { isErrno } from '../../../../lib/to-error.ts';
import { logPath, markPath, readMark, useOf, type Mark } from './mark.ts';
import { scanLog, type LogScan } from './scan.ts';

export interface LogLoss {
  /** What is wrong, after the name of the database. */
  readonly what: string;
  readonly hasLog: boolean;
  /**
   * The length of the log that SQLite can read, bytes; 0 where the database has all of the log: its first part alone would
   * put older pages in the place of newer ones.
   */
  readonly readableBytes: number;
}

/** How often files that change while they are read are read again. */
const TRIES = 3;

/**
 * Returns null if nothing is missing as far as the files show. A database that another process is writing is not judged:
 * SQLite refuses to open it.
 */
export function findLogLoss(database: string): LogLoss | null {
  for (let i = 0; i < TRIES; i++) {
    const before = timesOf(database);
    // First the mark: what is written meanwhile is in the log before it is in the mark.
    const mark = readMark(database);
    const loss = judge(database, scanLog(logPath(database)), mark);
    if (loss === null) return null;
    if (timesOf(database) === before) return loss;
  }
  return null;
}

function judge(database: string, scan: LogScan | null, mark: Mark | null): LogLoss | null {
  if (scan !== null && scan.damagedFrame !== null) return damaged(scan, scan.damagedFrame, mark);
  if (mark === null) return null;
  const header = scan?.header ?? null;
  if (scan === null || header === null) return judgeMissing(database, scan, mark);
  switch (useOf(header, mark)) {
    case 'same':
      if (scan.committed >= mark.frames) return null;
      return {
        what: `the write-ahead log is damaged: ${scan.committed} of at least ${mark.frames} pages can be read`,
        hasLog: true,
        readableBytes: readableBytes(scan, mark),
      };
    case 'later':
      return null;
    case 'other':
    default:
      return judgeMissing(database, scan, mark);
  }
}

function damaged(scan: LogScan, frame: number, mark: Mark | null): LogLoss {
  const where = frame === 0 ? 'its header' : `page ${frame}`;
  return {
    what: `the write-ahead log is damaged at ${where}: at least ${scan.lostCommits} later commits cannot be read`,
    hasLog: true,
    readableBytes: readableBytes(scan, mark),
  };
}

function readableBytes({ header, committedBytes }: LogScan, mark: Mark | null): number {
  const isInDatabase = mark !== null && header !== null && useOf(header, mark) === 'same' && mark.checkpointed >= mark.frames;
  return isInDatabase ? 0 : committedBytes;
}

/** A log that is gone was either brought into the database, which is newer than the mark then, or is lost. */
function judgeMissing(database: string, scan: LogScan | null, mark: Mark): LogLoss | null {
  if (mark.checkpointed >= mark.frames || (modifiedAt(database) ?? 0n) > (modifiedAt(markPath(database)) ?? 0n)) return null;
  const what = scan === null ? 'missing' : scan.header === null ? 'damaged at its header' : 'another one';
  return { what: `the write-ahead log is ${what}: it had at least ${mark.frames} pages`, hasLog: scan !== null, readableBytes: 0 };
}

function timesOf(database: string): string {
  return [logPath(database), markPath(database)].map((path) => String(modifiedAt(path))).join();
}

function modifiedAt(path: string): bigint | null {
  try {
    return statSync(path, { bigint: true }).mtimeNs;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    throw error;
  }
}
