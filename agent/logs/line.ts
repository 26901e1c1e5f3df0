/** A line of worker output as the segments store it: one JSON object a line, with short keys. */
import { parseExact, stringifyExact } from '../../lib/exact-json.ts';
import { LOG_LEVELS, type LogLevel } from '../../lib/log-filter.ts';
import { visibleText } from '../../lib/visible-text.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { withChecksum, withoutChecksum } from './line-checksum.ts';

/** Keys of a stored line; those with empty values are left out. */
interface StoredLine {
  /** Time, µs since 1970; unique among the lines of an endpoint on a node. */
  readonly t: number;
  readonly w?: string;
  readonly r?: string;
  readonly j?: string;
  readonly a?: number;
  readonly s: string;
  readonly l?: string;
  readonly m: string;
  /** Fields of a line that was a JSON object, as JSON text. */
  readonly f?: string;
}

export function encodeLine(line: LogLine): string {
  const stored: StoredLine = {
    t: Number(line.atUs),
    ...(line.workerId === '' ? {} : { w: line.workerId }),
    ...(line.releaseId === '' ? {} : { r: line.releaseId }),
    ...(line.jobId === '' ? {} : { j: line.jobId }),
    ...(line.attempt === 0 ? {} : { a: line.attempt }),
    s: line.stream,
    ...(line.level === '' ? {} : { l: line.level }),
    m: line.text,
    ...(line.fields === '' ? {} : { f: line.fields }),
  };
  // The file may be read on a terminal; the notation is JSON's.
  return `${withChecksum(visibleText(JSON.stringify(stored)))}\n`;
}

/** Returns undefined for a line that a crash or a full disk truncated, and for one that is damaged. */
export function decodeLine(text: string, endpointId: string): LogLine | undefined {
  const json = withoutChecksum(text);
  if (json === undefined) return undefined;
  let stored: Partial<StoredLine> | null;
  try {
    stored = JSON.parse(json) as Partial<StoredLine> | null;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  if (typeof stored?.t !== 'number' || !Number.isSafeInteger(stored.t) || typeof stored.m !== 'string') return undefined;
  return {
    atMs: BigInt(Math.trunc(stored.t / 1_000)),
    atUs: BigInt(stored.t),
    workerId: stored.w ?? '',
    releaseId: stored.r ?? '',
    jobId: stored.j ?? '',
    attempt: stored.a ?? 0,
    stream: stored.s ?? 'stdout',
    level: stored.l ?? '',
    text: stored.m,
    fields: stored.f ?? '',
    endpointId,
  };
}

/** Longest text of parsed fields that is kept beside a line, characters. */
const MAX_FIELDS = 8 * 1024;
const MESSAGE_KEYS = ['message', 'msg', 'event'];
const LEVEL_KEYS = ['level', 'severity', 'levelname', 'lvl'];
const NAMED_LEVELS: Readonly<Record<string, LogLevel>> = {
  trace: 'trace',
  verbose: 'debug',
  debug: 'debug',
  info: 'info',
  information: 'info',
  notice: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
  err: 'error',
  critical: 'fatal',
  fatal: 'fatal',
  alert: 'fatal',
  emergency: 'fatal',
};
/** A level near the start of a line, behind a date at most: `ERROR:root:…`, `2026-11-23 10:00:00,1 - app - WARNING - …`, `[info] …`. */
const PLAIN_LEVEL =
  /^[^A-Za-z]{0,40}(?:[\w.]{1,40} - |\w{1,20}: )?[[(<]?(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)[\]):> ]/i;

/**
 * Reads the level of a line and, if it is one JSON object, its message and its other fields. `text` is what is shown: the message
 * if there is one, else the line.
 */
export function parseText(text: string): { readonly text: string; readonly level: LogLevel | ''; readonly fields: string } {
  const record = text.startsWith('{') && text.trimEnd().endsWith('}') ? recordOf(text) : undefined;
  if (record === undefined)
    return { text, level: NAMED_LEVELS[PLAIN_LEVEL.exec(text.slice(0, 120))?.[1]?.toLowerCase() ?? ''] ?? '', fields: '' };
  const messageKey = MESSAGE_KEYS.find((key) => typeof record[key] === 'string');
  const levelKey = LEVEL_KEYS.find((key) => levelOf(record[key]) !== undefined);
  const level = levelKey === undefined ? '' : (levelOf(record[levelKey]) ?? '');
  if (messageKey === undefined) return { text, level, fields: '' };
  const { [messageKey]: message, ...others } = record;
  const fields = stringifyExact(others);
  // A record too large to be kept twice stays as it was printed.
  if (fields.length > MAX_FIELDS) return { text, level, fields: '' };
  return { text: String(message), level, fields: fields === '{}' ? '' : fields };
}

function recordOf(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseExact(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Level by its name, or by pino's and bunyan's number. */
function levelOf(value: unknown): LogLevel | undefined {
  if (typeof value === 'string') return NAMED_LEVELS[value.toLowerCase()];
  if (typeof value !== 'number' || !(value >= 10 && value <= 60)) return undefined;
  return LOG_LEVELS[Math.trunc(value / 10) - 1];
}
