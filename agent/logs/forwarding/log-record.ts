/** A worker's line as a log record of OpenTelemetry. Runs in the forwarding thread. */
import { TraceFlags } from '@opentelemetry/api';
import { SeverityNumber, type AnyValue, type LogAttributes } from '@opentelemetry/api-logs';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';

import { parseExact, stringifyExact } from '../../../lib/exact-json.ts';
import type { LogLevel } from '../../../lib/log-filter.ts';
import type { LogLine } from '../../../proto/gen/capstan/v1/nodes.ts';

/** W3C trace context of what printed a line. */
export interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hex digits, not all zero. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

export interface ForwardedLine {
  readonly line: LogLine;
  /** Empty when unknown. */
  readonly endpointName: string;
  readonly trace?: TraceContext;
}

/** What is the same for all records; exporters group records by these objects. */
export type RecordOrigin = Pick<ReadableLogRecord, 'resource' | 'instrumentationScope'>;

/** Most fields of a JSON line that become attributes. */
const MAX_FIELDS = 64;
const MAX_KEY = 128;
/** Characters of a field's value. */
const MAX_VALUE = 4_096;

const SEVERITIES: Readonly<Record<LogLevel, SeverityNumber>> = {
  trace: SeverityNumber.TRACE,
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
  fatal: SeverityNumber.FATAL,
};

export function recordOf({ line, endpointName, trace }: ForwardedLine, origin: RecordOrigin): ReadableLogRecord {
  const time: [number, number] = [Number(line.atUs / 1_000_000n), Number(line.atUs % 1_000_000n) * 1_000];
  const { attributes, dropped } = fieldAttributes(line.fields);
  return {
    ...origin,
    hrTime: time,
    hrTimeObserved: time,
    ...(line.level === '' ? {} : { severityText: line.level, severityNumber: SEVERITIES[line.level as LogLevel] }),
    body: line.text.toWellFormed(),
    // Fields of user code do not replace what the agent knows.
    attributes: { ...attributes, ...ownAttributes(line, endpointName) },
    droppedAttributesCount: dropped,
    ...(trace === undefined || !isValid(trace) ? {} : { spanContext: spanContextOf(trace) }),
  };
}

function ownAttributes({ endpointId, jobId, attempt, workerId, releaseId, stream }: LogLine, endpointName: string): LogAttributes {
  return {
    'capstan.endpoint.id': endpointId,
    ...(endpointName === '' ? {} : { 'capstan.endpoint.name': endpointName }),
    ...(jobId === '' ? {} : { 'capstan.job.id': jobId }),
    ...(attempt === 0 ? {} : { 'capstan.attempt': attempt }),
    ...(workerId === '' ? {} : { 'capstan.worker.id': workerId }),
    ...(releaseId === '' ? {} : { 'capstan.release': releaseId }),
    'log.iostream': stream,
  };
}

/** Fields of a JSON line under their own names; objects and lists as JSON text. */
function fieldAttributes(fields: string): { readonly attributes: LogAttributes; readonly dropped: number } {
  if (fields === '') return { attributes: {}, dropped: 0 };
  const all = Object.entries(parseExact(fields) as Record<string, unknown>);
  const kept = all.filter(([key]) => key !== '' && key.length <= MAX_KEY).slice(0, MAX_FIELDS);
  return {
    attributes: Object.fromEntries(kept.map(([key, value]) => [key.toWellFormed(), attributeValue(value)])),
    dropped: all.length - kept.length,
  };
}

/** Receivers refuse a whole batch for text that is no valid Unicode. */
function attributeValue(value: unknown): AnyValue {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value : stringifyExact(value);
  return text.slice(0, MAX_VALUE).toWellFormed();
}

function isValid({ traceId, spanId }: TraceContext): boolean {
  return /^(?!0+$)[\da-f]{32}$/.test(traceId) && /^(?!0+$)[\da-f]{16}$/.test(spanId);
}

function spanContextOf({ traceId, spanId, isSampled }: TraceContext): NonNullable<ReadableLogRecord['spanContext']> {
  return { traceId, spanId, traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE };
}
