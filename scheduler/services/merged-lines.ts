/** Merges the log lines of several nodes into one page. */
import { CapstanError } from '../../lib/errors.ts';
import type { LogPosition } from '../../proto/gen/capstan/v1/common.ts';
import type { GetLogsResponse } from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine, LogsReply, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';

/** The lines of one node, oldest first. */
export interface NodeLines {
  readonly session: number;
  readonly lines: readonly LogLine[];
  /** Where the node's search ended for want of time, µs; 0: it is complete. */
  readonly stoppedAtUs: bigint;
  /** Up to here the node has returned all lines, µs of its clock; undefined when unknown. */
  readonly searchedUs?: bigint | undefined;
  /** Why the node refused the request; empty when it did not. */
  readonly error: string;
}

/**
 * Returns the newest lines of all nodes up to the limit, or the oldest ones. Lines beyond the place where one node's search ended
 * belong to a later page. Throws INVALID_ARGUMENT when a node refused the filter.
 */
export function mergedLines(
  replies: readonly NodeLines[],
  { limit, filter, waitMs = 0 }: Pick<LogsRequest, 'limit' | 'filter' | 'waitMs'>,
  missing: { readonly missingNodes: readonly string[]; readonly unfilteredNodes: readonly string[] },
): GetLogsResponse {
  const refused = replies.find(({ error }) => error !== '');
  if (refused !== undefined) throw new CapstanError('INVALID_ARGUMENT', refused.error.slice(0, 500), { field: 'pattern' });
  const oldestFirst = filter?.oldestFirst === true;
  const stops = replies.map(({ stoppedAtUs }) => stoppedAtUs).filter((us) => us > 0n);
  const stop = stops.length === 0 ? undefined : stops.reduce((a, b) => ((oldestFirst ? b < a : b > a) ? b : a));
  const within = ({ atUs }: LogLine): boolean => stop === undefined || (oldestFirst ? atUs < stop : atUs > stop);
  const found = replies.flatMap(({ lines }) => lines.filter(within)).toSorted(byPosition);
  const horizon = waitMs > 0 && oldestFirst ? horizonOf(replies) : undefined;
  const all = horizon === undefined ? found : found.filter(({ atUs }) => atUs <= horizon);
  const isAhead = all.length < found.length;
  const lines = withinReply(oldestFirst ? all.slice(0, limit) : all.slice(-limit).reverse());
  const isCut = lines.length < Math.min(limit, all.length);
  const isFull = lines.length >= limit;
  if (!oldestFirst) lines.reverse();
  const last = oldestFirst ? lines.at(-1) : lines[0];
  return {
    lines,
    ...nextOf(isFull || isCut ? last : undefined, stop, oldestFirst),
    incomplete: isCut || (!isFull && (stop !== undefined || isAhead)),
    missingNodes: [...missing.missingNodes],
    unfilteredNodes: [...missing.unfilteredNodes],
  };
}

/**
 * Whether a reply is from an agent that ignores the filter of the request and returned lines: such agents do not send times in µs,
 * either (version 0.2 and before).
 */
export function ignoresFilter({ filter }: Pick<LogsRequest, 'filter'>, { lines }: Pick<LogsReply, 'lines'>): boolean {
  if (filter === undefined) return false;
  const { jobId, releaseId, stream, level, contains, pattern, oldestFirst, after, before } = filter;
  const isEmpty = [jobId, releaseId, stream, level, contains, pattern].every((each) => each === '');
  if (isEmpty && !oldestFirst && after === undefined && before === undefined) return false;
  return lines.some(({ atUs }) => atUs === 0n);
}

/** Longest time by which lines of a node wait for those of a slower one, or of one whose clock is behind, µs. */
const MAX_BEHIND_US = 2_000_000n;

/**
 * Returns the time up to which all nodes have returned their lines, µs. A reader that follows goes on after the last line it has:
 * a line of one node must not take it past lines that another node has yet to return.
 */
function horizonOf(replies: readonly NodeLines[]): bigint | undefined {
  const times = replies.flatMap(({ searchedUs }) => searchedUs ?? []);
  if (replies.length < 2 || times.length === 0) return undefined;
  const [first, last] = [times.reduce((a, b) => (b < a ? b : a)), times.reduce((a, b) => (b > a ? b : a))];
  return last - first > MAX_BEHIND_US ? last - MAX_BEHIND_US : first;
}

/** Characters of the lines of one reply. */
const MAX_REPLY_CHARACTERS = 2_000_000;

/** Returns the first lines that fit one reply, at least one. */
function withinReply(lines: readonly LogLine[]): LogLine[] {
  const kept: LogLine[] = [];
  let characters = 0;
  for (const line of lines) {
    characters += line.text.length + line.fields.length;
    if (kept.length > 0 && characters > MAX_REPLY_CHARACTERS) break;
    kept.push(line);
  }
  return kept;
}

/** After every worker's id. */
const LAST_WORKER = '~';

/** A full page goes on at its last line; one that was stopped, with the line that was not looked at. */
function nextOf(last: LogLine | undefined, stop: bigint | undefined, oldestFirst: boolean): { next?: LogPosition } {
  if (last !== undefined) return { next: { atUs: last.atUs, workerId: last.workerId } };
  if (stop === undefined) return {};
  return { next: oldestFirst ? { atUs: stop - 1n, workerId: LAST_WORKER } : { atUs: stop + 1n, workerId: '' } };
}

function byPosition(a: LogLine, b: LogLine): number {
  if (a.atUs !== b.atUs) return a.atUs < b.atUs ? -1 : 1;
  return a.workerId < b.workerId ? -1 : a.workerId > b.workerId ? 1 : 0;
}
