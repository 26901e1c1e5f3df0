/**
 * Limits for agents' reports. A node is trusted only with what was placed on it: its texts and lists are truncated, and
 * a body that it names must have the form of one.
 */
import { isBodyId } from '../../../lib/body-id.ts';
import { preinstalledPackages } from '../../../lib/base-images.ts';
import { fromPayloadMessage, MAX_INLINE_BYTES, type Payload } from '../../../lib/payload.ts';
import type { Payload as PayloadMessage } from '../../../proto/gen/capstan/v1/common.ts';
import type { Inventory, LogLine, WorkerStatus } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { WorkerRecord } from '../state/fleet.ts';

/** Characters of a job's error. */
const MAX_ERROR_LENGTH = 256 * 1024;
const MAX_REASON_LENGTH = 64;
const MAX_DETAIL_LENGTH = 8 * 1024;
/** Characters of a text in an inventory, and items of a list. */
const MAX_TEXT_LENGTH = 1_024;
const MAX_ITEMS = 512;
const MAX_VERSION_LENGTH = 64;

/** Returns the reported body; null for none, `invalid` for one that no correct agent sends. */
export function reportedBody(message: PayloadMessage | undefined): Payload | null | 'invalid' {
  const body = fromPayloadMessage(message);
  if (body === undefined) return null;
  if ('inline' in body) return body.inline.length <= MAX_INLINE_BYTES ? body : 'invalid';
  // A `build/…` id is invalid: it would expose any account's code as the output of a job.
  return isBodyId(body.blob.id) ? body : 'invalid';
}

export function reportedError(error: string): string {
  return cut(error, MAX_ERROR_LENGTH);
}

/** Returns the status of a worker with the endpoint, release and devices of its placement. */
export function reportedStatus(worker: WorkerRecord, status: WorkerStatus): WorkerStatus {
  return {
    ...status,
    workerId: worker.id,
    endpointId: worker.endpoint,
    releaseId: worker.release,
    deviceUuids: status.deviceUuids.filter((uuid) => worker.devices.includes(uuid)),
    reason: cut(status.reason, MAX_REASON_LENGTH),
    detail: cut(status.detail, MAX_DETAIL_LENGTH),
  };
}

/** Returns the version of an agent; empty for a text that is none. */
export function reportedVersion(version: string): string {
  return /^\d+\.\d+\.\d+[\w.+-]{0,64}$/.test(version) ? version : '';
}

/** Packages other than those of base images decide nothing, and every account reads them. */
export function reportedInventory(inventory: Inventory): Inventory {
  const { packages } = inventory;
  const known = preinstalledPackages.filter((name) => Object.hasOwn(packages, name));
  return {
    ...(bounded(inventory) as Inventory),
    packages: Object.fromEntries(known.map((name) => [name, cut(String(packages[name]), MAX_VERSION_LENGTH)])),
  };
}

export interface ReportedLinesRule {
  readonly endpointId: string;
  /** Whether lines of this worker may be shown. */
  readonly isShown: (workerId: string) => boolean;
  readonly afterMs: bigint;
  /** Maximum of lines. */
  readonly limit: number;
}

/** Characters of a log line, with room for a mark at its end. */
const MAX_LINE_LENGTH = 17 * 1024;
/** Characters of the lines of one reply. */
const MAX_REPLY_LENGTH = 8 * 1024 * 1024;
/** End of the year 9999, ms. */
const LAST_TIME_MS = 253_402_300_799_999n;
const MAX_FIELDS_LENGTH = 16 * 1024;
const streams: ReadonlySet<string> = new Set(['stdout', 'stderr', 'system']);
const levels: ReadonlySet<string> = new Set(['', 'trace', 'debug', 'info', 'warn', 'error', 'fatal']);

/** Returns the lines of one node's reply that belong to the requested workers, oldest first. */
export function reportedLines({ endpointId, isShown, afterMs, limit }: ReportedLinesRule, lines: readonly LogLine[]): LogLine[] {
  const found: LogLine[] = [];
  let length = 0;
  for (let at = lines.length - 1; at >= 0 && found.length < limit; at -= 1) {
    const line = lines[at];
    if (line === undefined || line.endpointId !== endpointId || !isShown(line.workerId) || !streams.has(line.stream)) continue;
    if (line.atMs <= afterMs || line.atMs < 0n || line.atMs > LAST_TIME_MS) continue;
    const text = cut(line.text, MAX_LINE_LENGTH);
    length += text.length;
    if (length > MAX_REPLY_LENGTH) break;
    found.push({ ...line, ...reportedFacts(line), text });
  }
  return found.reverse();
}

/** What a line says besides its text, without values of another shape. Agents of version 0.2 and before send no µs. */
function reportedFacts({ atMs, atUs, jobId, workerId, releaseId, level, fields }: LogLine): Partial<LogLine> {
  const isSameTime = atUs / 1_000n === atMs;
  return {
    atUs: isSameTime ? atUs : atMs * 1_000n,
    jobId: idOf(jobId),
    workerId: idOf(workerId),
    releaseId: idOf(releaseId),
    level: levels.has(level) ? level : '',
    fields: fields.length > MAX_FIELDS_LENGTH ? '' : fields.toWellFormed(),
  };
}

function idOf(text: string): string {
  return /^[\w-]{1,128}$/.test(text) ? text : '';
}

function cut(text: string, most: number): string {
  return (text.length > most ? text.slice(0, most) : text).toWellFormed();
}

function bounded(value: unknown): unknown {
  if (typeof value === 'string') return cut(value, MAX_TEXT_LENGTH);
  if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map(bounded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, MAX_ITEMS)
      .map(([key, each]) => [cut(key, MAX_TEXT_LENGTH), bounded(each)]),
  );
}
