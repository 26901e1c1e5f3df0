/** Which lines a search returns. Runs in the log thread. */
import { compilePattern, LOG_LEVELS } from '../../lib/log-filter.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';

export interface LogFilter {
  readonly workerId: string;
  readonly releaseId: string;
  readonly jobId: string;
  readonly stream: string;
  /** Least level; empty: all lines. Lines without a level count as `info`. */
  readonly level: string;
  /** Text that the line contains, case-sensitive. */
  readonly contains: string;
  /** RE2 expression that matches some part of the line. */
  readonly pattern: string;
  /** Only lines after this position. */
  readonly after: LogPosition | undefined;
  /** Only lines before this position. */
  readonly before: LogPosition | undefined;
}

/** The place of a line among those of all nodes: by time, µs, then by worker. */
export interface LogPosition {
  readonly us: number;
  readonly workerId: string;
}

/** Compiles the filter. Throws INVALID_ARGUMENT for a pattern that is no RE2 expression. */
export function lineMatcher(filter: LogFilter): (line: LogLine) => boolean {
  const { workerId, releaseId, jobId, stream, contains, after, before } = filter;
  const pattern = filter.pattern === '' ? undefined : compilePattern(filter.pattern);
  const least = filter.level === '' ? -1 : LOG_LEVELS.findIndex((level) => level === filter.level);
  return (line) =>
    (workerId === '' || line.workerId === workerId) &&
    (releaseId === '' || line.releaseId === releaseId) &&
    (jobId === '' || line.jobId === jobId) &&
    (stream === '' || line.stream === stream) &&
    (least < 0 || severity(line.level) >= least) &&
    isWithin(line, { after, before }) &&
    (contains === '' || line.text.includes(contains) || line.fields.includes(contains)) &&
    (pattern === undefined || pattern.test(line.text) || (line.fields !== '' && pattern.test(line.fields)));
}

/** Whether the line is between the two positions. */
export function isWithin(line: LogLine, { after, before }: Pick<LogFilter, 'after' | 'before'>): boolean {
  return (after === undefined || isAfter(line, after)) && (before === undefined || isBefore(line, before));
}

function severity(level: string): number {
  const found = LOG_LEVELS.findIndex((each) => each === level);
  return found === -1 ? LOG_LEVELS.indexOf('info') : found;
}

function isAfter(line: LogLine, { us, workerId }: LogPosition): boolean {
  const at = Number(line.atUs);
  return at > us || (at === us && line.workerId > workerId);
}

function isBefore(line: LogLine, { us, workerId }: LogPosition): boolean {
  const at = Number(line.atUs);
  return at < us || (at === us && line.workerId < workerId);
}
