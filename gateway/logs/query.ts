/** A search of log lines as callers write it, in GraphQL and over HTTP, and as the scheduler receives it. */
import { CapstanError } from '../../lib/errors.ts';
import { parseExact } from '../../lib/exact-json.ts';
import type { LogPosition } from '../../proto/gen/capstan/v1/common.ts';
import type { GetLogsRequest, GetLogsResponse } from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';

export const MAX_LOG_LINES = 1_000;

/** Absent values accept all lines. */
export interface LogQuery {
  readonly worker?: string | null | undefined;
  readonly job?: string | null | undefined;
  readonly release?: string | null | undefined;
  readonly stream?: string | null | undefined;
  readonly level?: string | null | undefined;
  readonly contains?: string | null | undefined;
  readonly pattern?: string | null | undefined;
  /** ms since the Unix epoch, inclusive. */
  readonly sinceMs?: number | null | undefined;
  /** ms since the Unix epoch, exclusive. */
  readonly untilMs?: number | null | undefined;
  readonly oldestFirst?: boolean | null | undefined;
  /** Continues an earlier page. */
  readonly cursor?: string | null | undefined;
}

/** Latest time that a query may name: the end of the year 9999, ms. */
const LAST_TIME_MS = 253_402_300_799_999;

/** Longest wait for a line, ms: callers, and gateways that stop, need not wait longer. */
const MAX_LOG_WAIT_MS = 5_000;

/** How long a call may wait for a line, ms: it ends before its own time-out. */
export function logWaitMs(waitMs: number, callTimeoutMs: number): number {
  return Math.max(0, Math.min(waitMs, MAX_LOG_WAIT_MS, Math.floor(callTimeoutMs / 2)));
}

/** Throws INVALID_ARGUMENT. `limit`: 0 for the default. `waitMs`: how long to wait for a first line. */
export function logRequest(endpointId: string, query: LogQuery, limit: number, waitMs = 0): GetLogsRequest {
  const oldestFirst = query.oldestFirst === true;
  const cursor = query.cursor === undefined || query.cursor === null ? undefined : decodeCursor(query.cursor);
  const since = bound('since', query.sinceMs);
  const until = bound('until', query.untilMs);
  const after = (oldestFirst ? cursor : undefined) ?? (since === undefined ? undefined : justBefore(since));
  const before = (oldestFirst ? undefined : cursor) ?? (until === undefined ? undefined : { atUs: until, workerId: '' });
  return {
    endpointId,
    workerId: query.worker ?? '',
    limit,
    afterMs: 0n,
    ...(waitMs === 0 ? {} : { waitMs }),
    filter: {
      jobId: query.job ?? '',
      releaseId: query.release ?? '',
      stream: query.stream ?? '',
      level: query.level ?? '',
      contains: query.contains ?? '',
      pattern: query.pattern ?? '',
      oldestFirst,
      after,
      before,
    },
  };
}

/** Where the next page begins; with `oldestFirst` also of the last page, so that a reader can wait for new lines. */
export function cursorOf({ next, lines }: GetLogsResponse, oldestFirst: boolean): string | null {
  const last = lines.at(-1);
  if (next !== undefined) return encodeCursor(next);
  return oldestFirst && last !== undefined ? encodeCursor({ atUs: last.atUs, workerId: last.workerId }) : null;
}

/** A line may be on its way for this long when a search begins, ms. */
const ON_ITS_WAY_MS = 5_000;

/** Cursor behind the last line of a page, from which `oldestFirst` goes on: for readers that wait for later lines. */
export function endOf(page: GetLogsResponse, { oldestFirst, cursor }: LogQuery, now: number): string {
  const own = cursorOf(oldestFirst === true ? page : { ...page, next: undefined }, true);
  if (own !== null) return own;
  if (oldestFirst === true && cursor != null) return cursor;
  return encodeCursor(justBefore(BigInt(Math.max(0, now - ON_ITS_WAY_MS)) * 1_000n));
}

/** A line as JSON. `fields`: of a line that was a JSON object, its other keys. */
export function logRow({ atUs, workerId, releaseId, jobId, attempt, stream, level, text, fields }: LogLine): object {
  return {
    at: new Date(Number(atUs / 1_000n)).toISOString(),
    worker: workerId,
    release: releaseId === '' ? null : releaseId,
    job: jobId === '' ? null : jobId,
    attempt: attempt === 0 ? null : attempt,
    stream,
    level: level === '' ? null : level,
    text,
    fields: parsedFields(fields),
  };
}

/** Fields come from a node: what is no object is left out. */
function parsedFields(fields: string): object | null {
  if (fields === '') return null;
  try {
    const value = parseExact(fields);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function bound(field: string, ms: number | null | undefined): bigint | undefined {
  if (ms === undefined || ms === null) return undefined;
  if (!Number.isFinite(ms) || ms < 0 || ms > LAST_TIME_MS)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time from 1970 to 9999`, { field });
  return BigInt(Math.trunc(ms)) * 1_000n;
}

/** The last position before a time. */
function justBefore(us: bigint): LogPosition {
  return us === 0n ? { atUs: 0n, workerId: '' } : { atUs: us - 1n, workerId: LAST_WORKER };
}

/** After every worker's id. */
const LAST_WORKER = '~';

function encodeCursor({ atUs, workerId }: LogPosition): string {
  return Buffer.from(`${atUs}.${workerId}`).toString('base64url');
}

function decodeCursor(cursor: string): LogPosition {
  const [, us, workerId] = /^(\d{1,16})\.([\w~-]{0,128})$/.exec(Buffer.from(cursor.slice(0, 300), 'base64url').toString()) ?? [];
  if (us === undefined || workerId === undefined)
    throw new CapstanError('INVALID_ARGUMENT', 'cursor: must be the cursor of an earlier page', { field: 'cursor' });
  return { atUs: BigInt(us), workerId };
}
