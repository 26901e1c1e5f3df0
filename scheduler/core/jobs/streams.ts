/**
 * Chunks of generators, held in memory, in addition to the agent's own copy, until a reader is known to have them. A
 * reply may be lost on its way to the gateway. Chunks are therefore dropped not with the reply but when the cursor of
 * the next read shows that they arrived; a read that is sent again gets the same chunks. Chunks sent on a channel that
 * is still open count as in transit, and no other reader gets them in the meantime.
 *
 * Bounded per job and over all jobs: without a reader the oldest chunks are dropped first (the job's output still
 * contains all of them).
 */
import { invariant } from '../../../lib/invariant.ts';
import { memoryBytes, ownPayload, type Payload } from '../../../lib/payload.ts';
import { addPending, countedBytes } from './body-use.ts';
import { dropBody, type State } from '../state.ts';
import type { JobRecord, StreamBuffer, Waiter } from '../state/jobs.ts';

/** Jobs whose last reply is remembered. Beyond this limit a reader without a cursor may see chunks twice. */
const MAX_HANDED = 10_000;

/** An attempt of a job, in the state or stored. */
type Attempt = Pick<JobRecord, 'id' | 'token'>;

type Reader = Pick<Waiter, 'after' | 'channel' | 'resent'>;

/** Adds a chunk of the present attempt. Returns false for a chunk that was added before. */
export function addChunk(state: State, job: JobRecord, index: number, data: Payload): boolean {
  const stream = (job.stream ??= { first: index, next: index, chunks: [], bytes: 0 });
  // After a restart of either side the agent sends again from the last drained chunk, except for chunks it had to drop.
  if (index < stream.next) return false;
  if (index > stream.next) {
    // No reader got the chunks that the agent dropped. Kept chunks have no gap, and their first index shows the loss.
    dropBelow(state, job, stream.next);
    stream.first = index;
  }
  stream.next = index + 1;
  const chunk = ownPayload(data);
  stream.chunks.push(chunk);
  count(state, stream, memoryBytes(chunk));
  countChunks(state, job, [chunk], 1);
  const { streamBytes, allStreamsBytes } = state.settings;
  while (stream.chunks.length > 1 && (stream.bytes > streamBytes || state.streamBytes > allStreamsBytes))
    dropBelow(state, job, stream.first + 1);
  return true;
}

/** Returns the kept chunks that a reader does not have, and their position. They then count as in transit to it. */
export function chunksFor(
  state: State,
  job: Attempt,
  stream: (Pick<StreamBuffer, 'first' | 'next'> & { readonly chunks: readonly Payload[] }) | null,
  reader: Reader,
): { readonly chunks: readonly Payload[]; readonly firstIndex: number } {
  const got = unreadFrom(state, job, reader);
  if (stream === null) return { chunks: [], firstIndex: got };
  const firstIndex = Math.min(Math.max(got, stream.first), stream.next);
  const chunks = stream.chunks.slice(firstIndex - stream.first);
  if (chunks.length > 0) remember(state, job, reader.channel, stream.next);
  return { chunks, firstIndex };
}

/**
 * Returns the index below which a reader certainly has all chunks of this attempt: that of its position. A read without one
 * shows nothing, not even on the channel of the last reply: it may have been sent before that reply arrived, which is lost if
 * the channel breaks. The reply to it brings the position that the next read carries.
 */
export function acknowledgedBy(job: Attempt, { after }: Pick<Reader, 'after'>): number {
  return after?.token === job.token ? after.next : 0;
}

/**
 * Drops kept chunks below an index. Returns false if there were none. `received`: their reader has them. The blobs of
 * other chunks are left to the sweep, because the agent may send them again after a restart.
 */
export function dropBelow(state: State, job: JobRecord, index: number, received = false): boolean {
  const { stream } = job;
  if (stream === null || index <= stream.first) return false;
  const gone = stream.chunks.splice(0, index - stream.first);
  for (const chunk of gone) {
    count(state, stream, -memoryBytes(chunk));
    if (received) dropBody(state, chunk);
  }
  countChunks(state, job, gone, -1);
  stream.first = Math.min(index, stream.next);
  return gone.length > 0;
}

/** Drops the stream of an attempt that ended or whose successor starts the stream anew. */
export function dropStream(state: State, job: JobRecord): void {
  for (const chunk of takeStream(state, job)?.chunks ?? []) dropBody(state, chunk);
}

/** Removes the kept chunks from the state, for the row of a job that ends. */
export function takeStream(state: State, job: JobRecord): StreamBuffer | null {
  const { stream } = job;
  if (stream !== null) {
    invariant(stream.next - stream.first === stream.chunks.length, 'kept chunks have no gap', { job: job.id, first: stream.first });
    state.streamBytes -= stream.bytes;
    invariant(state.streamBytes >= 0, 'the bytes of a stream were counted', { job: job.id, bytes: stream.bytes });
    countChunks(state, job, stream.chunks, -1);
  }
  job.stream = null;
  return stream;
}

function unreadFrom(state: State, job: Attempt, { after, channel, resent }: Reader): number {
  const known = after?.token === job.token ? after.next : 0;
  const handed = after?.exact === true ? undefined : handedOf(state, job);
  // A broken channel may still look open here when its requests are sent again.
  return handed === undefined || (resent && handed.channel !== channel) ? known : Math.max(known, handed.next);
}

function handedOf(state: State, job: Attempt): { readonly channel: number; readonly next: number } | undefined {
  const handed = state.handed.get(job.id);
  return handed?.token === job.token ? handed : undefined;
}

function remember(state: State, { id, token }: Attempt, channel: number, next: number): void {
  state.handed.delete(id);
  state.handed.set(id, { channel, token, next });
  if (state.handed.size <= MAX_HANDED) return;
  for (const oldest of state.handed.keys()) {
    state.handed.delete(oldest);
    return;
  }
}

function count(state: State, stream: StreamBuffer, bytes: number): void {
  stream.bytes += bytes;
  state.streamBytes += bytes;
  invariant(stream.bytes >= 0 && state.streamBytes >= stream.bytes, 'chunks that are dropped were counted', {
    bytes: stream.bytes,
    all: state.streamBytes,
  });
}

/**
 * Chunks of running attempts have no row: they count for the account until they are dropped or the job's end names
 * them.
 */
function countChunks(state: State, job: JobRecord, chunks: readonly Payload[], by: 1 | -1): void {
  const account = state.endpoints.get(job.endpoint)?.config.account;
  // A database that was restored in part lacks the endpoint's row.
  if (account === undefined) return;
  for (const chunk of chunks) addPending(state, account, by * countedBytes(chunk));
}
