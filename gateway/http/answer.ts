/**
 * Writes responses about jobs by hand: outputs, progress and chunks are inserted as raw bytes, without parsing or
 * re-encoding.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';

import type { FastifyReply, FastifyRequest } from 'fastify';

import { assertNever, CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, payloadBytes, type Payload } from '../../lib/payload.ts';
import { JobState, type Payload as PayloadMessage } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointHealth, Job, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';
import type { Bodies } from '../blobs/bodies.ts';
import { JSON_TYPE, sendFailure } from './problem.ts';
import { idsOf, type JobServices } from './services.ts';

/** A piece of a response: text, or a document. A document in the blob store is read while the response is sent. */
export type Part = string | Payload;

export type StatusName = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

export function statusName(state: JobState): StatusName {
  switch (state) {
    case JobState.IN_QUEUE:
      return 'IN_QUEUE';
    case JobState.IN_PROGRESS:
      return 'IN_PROGRESS';
    case JobState.COMPLETED:
      return 'COMPLETED';
    case JobState.FAILED:
      return 'FAILED';
    case JobState.CANCELLED:
      return 'CANCELLED';
    case JobState.TIMED_OUT:
      return 'TIMED_OUT';
    case JobState.UNSPECIFIED:
    case JobState.UNRECOGNIZED:
      throw new CapstanError('INTERNAL', 'the scheduler sent a job without a state');
    default:
      return assertNever(state);
  }
}

/** `{"id","status"}`: the answer to /run. */
export function submittedText(id: string, status: StatusName): string {
  return `{"id":${quoted(id)},"status":"${status}"}`;
}

/** `{"id","status"}` with the times of a started attempt: the responses of /cancel and /retry. */
export function changedText(job: Job): string {
  return `{"id":${quoted(job.id)},"status":"${statusName(job.state)}"${times(job)}}`;
}

/** Returns the status object. With `bigOutputs` false, an output in the blob store is omitted. */
export function statusParts(job: Job, bigOutputs = true): Part[] {
  const head = `{"id":${quoted(job.id)},"status":"${statusName(job.state)}"`;
  let tail = '';
  if (job.error !== undefined) tail += `,"error":${JSON.stringify(job.error)}`;
  tail += times(job);
  if (job.retries > 0) tail += `,"retries":${job.retries}`;
  if (job.workerId !== '') tail += `,"workerId":${quoted(job.workerId)}`;
  if (job.state === JobState.IN_QUEUE && job.queueReason !== '') tail += `,"queueReason":${quoted(job.queueReason)}`;
  tail += '}';
  const output = payloadPart(job.output);
  if (output === undefined || (!bigOutputs && 'blob' in output)) return [head + tail];
  return [`${head},"output":`, output, tail];
}

/** `{"status","stream":[{"output":chunk}…]}`. */
export function streamParts(part: StreamPart): Part[] {
  const parts: Part[] = [`{"status":"${statusName(part.state)}","stream":[`];
  let separator = '{"output":';
  for (const chunk of part.chunks) {
    const output = payloadPart(chunk);
    if (output === undefined) continue;
    parts.push(separator, output);
    separator = '},{"output":';
  }
  const close = parts.length > 1 ? '}]' : ']';
  parts.push(part.error === undefined ? `${close}}` : `${close},"error":${JSON.stringify(part.error)}}`);
  return parts;
}

/** A page of /requests. */
export function requestsParts(jobs: readonly Job[], total: number, offset: number, limit: number): Part[] {
  const parts: Part[] = ['{"requests":['];
  for (const [index, job] of jobs.entries()) {
    if (index > 0) parts.push(',');
    parts.push(...statusParts(job, false));
  }
  parts.push(`],"total":${total},"offset":${offset},"limit":${limit},"hasMore":${offset + jobs.length < total}}`);
  return parts;
}

/** /health: every count, always. */
export function healthText(health: EndpointHealth): string {
  return JSON.stringify({
    jobs: {
      completed: health.jobsCompleted,
      failed: health.jobsFailed,
      inProgress: health.jobsInProgress,
      inQueue: health.jobsInQueue,
      retried: health.jobsRetried,
    },
    workers: {
      idle: health.workersIdle,
      initializing: health.workersInitializing,
      ready: health.workersReady,
      running: health.workersRunning,
      throttled: health.workersThrottled,
      unhealthy: health.workersUnhealthy,
    },
  });
}

/**
 * Sends the result of `build` as one JSON document with a content-length. When a body cannot be read, sends an error
 * response if nothing has been sent; otherwise ends the connection, which the caller notices by the missing bytes.
 */
export function sendParts(reply: FastifyReply, services: JobServices, build: () => readonly Part[]): void {
  try {
    const parts = build();
    const whole = inOnePiece(parts);
    if (whole !== null) sendWhole(reply, services, whole);
    else sendStreamed(reply, services, parts).catch((thrown: unknown) => sendFailure(reply, thrown));
  } catch (thrown) {
    sendFailure(reply, thrown);
  }
}

/** Opens a stored part. A damaged one fails with the name of the job: whoever reads the response knows no names of bodies. */
async function openFor(request: FastifyRequest, bodies: Pick<Bodies, 'open'>, part: StoredPart): Promise<AsyncIterable<Buffer>> {
  try {
    return await bodies.open(part.blob);
  } catch (thrown) {
    const { job } = idsOf(request);
    if (!(thrown instanceof CapstanError) || thrown.code !== 'PAYLOAD_DAMAGED' || job === undefined) throw thrown;
    throw new CapstanError('PAYLOAD_DAMAGED', `PAYLOAD_DAMAGED: the output of job ${job} is damaged in the store`, {
      jobId: job,
      cause: thrown,
    });
  }
}

/**
 * Sends a JSON document: its bytes, one a character. Such a text leaves with its head in one write. The framework would examine what
 * kind of response it is, which costs more than the response; where the hooks of CORS add headers, it sends it nevertheless.
 */
export function sendWhole(reply: FastifyReply, { config }: Pick<JobServices, 'config'>, bytes: string): void {
  if (config.corsOrigins.length > 0) {
    reply.header('content-type', JSON_TYPE).send(Buffer.from(bytes, 'latin1'));
    return;
  }
  const { raw, request } = reply;
  const headers = reply.getHeaders() as OutgoingHttpHeaders;
  headers['content-type'] = JSON_TYPE;
  headers['content-length'] = bytes.length;
  request.streamedBytes = bytes.length;
  raw.writeHead(raw.statusCode, headers);
  raw.end(bytes, 'latin1');
}

/** Returns the bytes of a document, one a character; null when a part is in the blob store. */
function inOnePiece(parts: readonly Part[]): string | null {
  let bytes = '';
  for (const part of parts) {
    if (typeof part === 'string') bytes += latin1Of(part);
    else if ('inline' in part) bytes += Buffer.from(part.inline.buffer, part.inline.byteOffset, part.inline.length).toString('latin1');
    else return null;
  }
  return bytes;
}

// oxlint-disable-next-line no-control-regex
const ASCII = /^[\u0000-\u007f]*$/;

/** The UTF-8 of a text, one byte a character. */
function latin1Of(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text).toString('latin1');
}

async function sendStreamed(reply: FastifyReply, services: JobServices, parts: readonly Part[]): Promise<void> {
  const first = parts.find(isStored);
  const { bodies } = services.cells.ofEndpoint(endpointIdOf(reply.request));
  const opened = first === undefined ? undefined : await openFor(reply.request, bodies, first);
  let length = 0;
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : payloadBytes(part);
  const failed = (thrown: unknown): void => {
    services.log.warn({ ...idsOf(reply.request), err: thrown }, 'reading a body failed');
  };
  const open = (part: StoredPart) => (part === first && opened !== undefined ? opened : bodies.open(part.blob));
  const stream = Readable.from(content(parts, open, failed), { highWaterMark: 2 });
  reply.header('content-type', JSON_TYPE).header('content-length', length).send(stream);
}

async function* content(
  parts: readonly Part[],
  open: (part: StoredPart) => AsyncIterable<Buffer> | Promise<AsyncIterable<Buffer>>,
  failed: (thrown: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    for (const part of parts) {
      if (typeof part === 'string') yield Buffer.from(part);
      else if ('inline' in part) yield part.inline;
      else yield* await open(part);
    }
  } catch (thrown) {
    failed(thrown);
    throw thrown;
  }
}

function endpointIdOf({ params }: FastifyRequest): string {
  return (params as { endpointId?: string } | undefined)?.endpointId ?? '';
}

type StoredPart = Extract<Payload, { blob: unknown }>;

function isStored(part: Part): part is StoredPart {
  return typeof part !== 'string' && 'blob' in part;
}

/** The document to insert; an empty one counts as absent. */
function payloadPart(message: PayloadMessage | undefined): Payload | undefined {
  const payload = fromPayloadMessage(message);
  return payload === undefined || payloadBytes(payload) === 0 ? undefined : payload;
}

function times(job: Job): string {
  let text = '';
  if (job.delayMs !== undefined) text += `,"delayTime":${job.delayMs}`;
  if (job.executionMs !== undefined) text += `,"executionTime":${job.executionMs}`;
  return text;
}

const PLAIN = /^[\w.:-]*$/;

/** Most ids need no escaping, and a test is cheaper than JSON.stringify. */
function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
