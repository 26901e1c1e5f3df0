/** Reads a blob of S3-compatible storage: goes on after a connection that was cut off, and checks length and digest. */
import { createHash } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import type { ReadableBlob } from './file-store.ts';
import { digestOfBody } from '../../lib/body-id.ts';
import { blobNotFound } from './ids.ts';
import type { S3Client, S3Response } from './s3-client.ts';

/** The blob's SHA-256 in hex, kept beside it. Blobs of earlier versions have none. */
export const DIGEST = 'x-amz-meta-sha256';
/** Limit for a piece: one frame of BlobService. */
const PIECE_BYTES = 256 * 1024;
/** How often a reader that was cut off goes on where it was. */
const RESUMES = 3;

export function readable(client: S3Client, id: string, first: S3Response): ReadableBlob {
  const size = Number(first.headers.get('content-length') ?? Number.NaN);
  let { body } = first;
  let isClosed = false;
  const quiet = (): void => undefined;
  body.on('error', quiet);

  /** The rest of the same object from a position on. */
  async function rest(from: number): Promise<S3Response> {
    const etag = first.headers.get('etag');
    const headers = { range: `bytes=${from}-`, ...(etag === undefined ? {} : { 'if-match': etag }) };
    const response = await client.send({ method: 'GET', key: id, headers });
    if (response === null) throw blobNotFound(id);
    if (response.headers.get('content-range')?.startsWith(`bytes ${from}-`) === true) return response;
    response.body.on('error', quiet).destroy();
    throw cutOff(new Error(`the storage ignored the range from byte ${from}`));
  }

  async function* pieces(): AsyncGenerator<Buffer> {
    const hash = createHash('sha256');
    let received = 0;
    for (let resumed = 0; received < size; resumed += 1) {
      try {
        for await (const chunk of body as AsyncIterable<Buffer>) {
          received += chunk.length;
          hash.update(chunk);
          for (let start = 0; start < chunk.length; start += PIECE_BYTES) yield chunk.subarray(start, start + PIECE_BYTES);
        }
      } catch (error) {
        if (isClosed || resumed >= RESUMES) throw cutOff(error);
      }
      if (received >= size) break;
      if (isClosed || resumed >= RESUMES) throw cutOff(new Error(`${received} of ${size} bytes`));
      ({ body } = await rest(received));
      body.on('error', quiet);
    }
    // A body is checked as a whole by its name.
    const digest = digestOfBody(id) === null ? first.headers.get(DIGEST) : undefined;
    if (received !== size || (digest !== undefined && hash.digest('hex') !== digest))
      throw new CapstanError('UNAVAILABLE', `the artifact store returned other bytes than were stored in ${id}`, { retryAfterMs: 1_000 });
  }

  return {
    size,
    pieces: pieces(),
    close: () => {
      isClosed = true;
      body.destroy();
    },
  };
}

function cutOff(cause: unknown): CapstanError {
  return new CapstanError('UNAVAILABLE', 'the artifact store cut off a blob', { retryAfterMs: 1_000, cause });
}
