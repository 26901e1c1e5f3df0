/**
 * Chunks of generators that nobody has read yet, held in memory beside the agent's own copy.
 * Bounded per job and over all jobs: when nobody reads, the oldest go first (the whole is in the
 * job's output all the same).
 */
import type { Body } from '../store/store.ts';
import type { Image, JobImage } from './image.ts';

/** Adds a chunk of the present attempt; false when it is one that was seen before. */
export function addChunk(image: Image, job: JobImage, index: number, data: Body): boolean {
  const stream = (job.stream ??= { next: 0, chunks: [], bytes: 0 });
  // After a restart of either side the agent sends again from what was drained, less what it had to drop.
  if (index < stream.next) return false;
  stream.next = index + 1;
  stream.chunks.push(data);
  count(image, job, sizeOf(data));
  const { streamBytes, allStreamsBytes } = image.settings;
  while (stream.chunks.length > 1 && (stream.bytes > streamBytes || image.streamBytes > allStreamsBytes)) {
    const oldest = stream.chunks.shift();
    if (oldest !== undefined) count(image, job, -sizeOf(oldest));
  }
  return true;
}

/** Takes every chunk that is kept; `next` is the index after the last of them. */
export function takeChunks(image: Image, job: JobImage): { readonly chunks: readonly Body[]; readonly next: number } {
  const { stream } = job;
  if (stream === null) return { chunks: [], next: 0 };
  const { chunks, next } = stream;
  count(image, job, -stream.bytes);
  stream.chunks = [];
  return { chunks, next };
}

/** The attempt is over, or another begins its stream anew. */
export function dropStream(image: Image, job: JobImage): void {
  takeChunks(image, job);
  job.stream = null;
}

function count(image: Image, job: JobImage, bytes: number): void {
  if (job.stream !== null) job.stream.bytes += bytes;
  image.streamBytes += bytes;
}

/** What lies in the blob store takes no memory here. */
function sizeOf(body: Body): number {
  return 'inline' in body ? body.inline.length + 64 : 128;
}
