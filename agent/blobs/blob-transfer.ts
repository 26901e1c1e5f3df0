/** Transfers bodies and builds over a separate connection, so that they do not block the session. */
import { once } from 'node:events';

import type { ClientWritableStream } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import type { OwnerFinder } from '../../lib/owner/owner-finder.ts';
import type { BlobReference } from '../../lib/payload.ts';
import {
  BlobPurpose,
  type BlobServiceClient,
  type GetBlobResponse,
  type PutBlobRequest,
  type PutBlobResponse,
} from '../../proto/gen/capstan/v1/blobs.ts';
import { Backoff } from '../session/backoff.ts';
import { blobClient, nodeMetadata } from '../session/connection.ts';
import type { Identity } from '../session/identity.ts';

const FRAME_BYTES = 256 * 1024;
/** A transfer without progress for this long, ms, is cancelled. */
const STALL_MS = 30_000;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 5_000;
/** An input delays its job. */
const LAST_INPUT_RETRY_MS = 500;
/** How long a body is requested again while the scheduler is unavailable, ms: longer than a standby takes to take over. */
const INPUT_MS = 15_000;

export class BlobTransfer {
  readonly #client: BlobServiceClient;
  readonly #identity: () => Identity | undefined;

  constructor(finder: OwnerFinder, identity: () => Identity | undefined) {
    this.#client = blobClient(finder);
    this.#identity = identity;
  }

  /**
   * Streams a blob: its size, then its bytes frame by frame. Throws NOT_FOUND, UNAVAILABLE and other errors of the
   * scheduler, DEADLINE_EXCEEDED when the transfer stalls.
   */
  async *frames(id: string, signal: AbortSignal): AsyncGenerator<{ readonly size: number } | { readonly data: Buffer }> {
    const stream = this.#client.get({ id }, this.#metadata());
    const stall = guard(stream, signal);
    try {
      for await (const { part } of stream as AsyncIterable<GetBlobResponse>) {
        stall.moved();
        if (part?.$case === 'size') yield { size: part.value };
        else if (part?.$case === 'data') yield { data: part.value };
      }
    } catch (error) {
      throw stall.reason() ?? fromServiceError(error);
    } finally {
      stall.end();
      stream.cancel();
    }
  }

  /** Returns a whole body; retries for some seconds while the scheduler is unavailable. */
  async get(ref: BlobReference, signal: AbortSignal): Promise<Buffer> {
    const backoff = new Backoff(FIRST_RETRY_MS, LAST_INPUT_RETRY_MS);
    for (const end = performance.now() + INPUT_MS; ;) {
      try {
        const parts: Buffer[] = [];
        for await (const frame of this.frames(ref.id, signal)) if ('data' in frame) parts.push(frame.data);
        const bytes = Buffer.concat(parts);
        if (bytes.length !== ref.size) throw new CapstanError('UNAVAILABLE', `the body has ${bytes.length} bytes instead of ${ref.size}`);
        return bytes;
      } catch (error) {
        if (performance.now() > end || !isTransient(error) || signal.aborted) throw error;
        await pause(backoff.next(), signal);
      }
    }
  }

  /** Stores a body; retries until the scheduler has stored it, refuses it, or `signal` aborts. */
  async put(bytes: Buffer, signal: AbortSignal): Promise<BlobReference> {
    const backoff = new Backoff(FIRST_RETRY_MS, LAST_RETRY_MS);
    for (;;) {
      try {
        return await this.#putOnce(bytes, signal);
      } catch (error) {
        if (!isTransient(error) || signal.aborted) throw error;
        await pause(backoff.next(), signal);
      }
    }
  }

  close(): void {
    this.#client.close();
  }

  async #putOnce(bytes: Buffer, signal: AbortSignal): Promise<BlobReference> {
    const { promise, resolve, reject } = Promise.withResolvers<PutBlobResponse>();
    const stream: ClientWritableStream<PutBlobRequest> = this.#client.put(this.#metadata(), (error, response) =>
      error === null ? resolve(response) : reject(error),
    );
    const stall = guard(stream, signal);
    try {
      stream.on('error', reject);
      const write = async (part: PutBlobRequest): Promise<void> => {
        if (!stream.write(part)) await Promise.race([once(stream, 'drain'), promise]);
        stall.moved();
      };
      await write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '' } } });
      for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
        await write({ part: { $case: 'data', value: bytes.subarray(at, at + FRAME_BYTES) } });
      }
      stream.end();
      const { id, size } = await promise;
      return { id, size };
    } catch (error) {
      throw stall.reason() ?? fromServiceError(error);
    } finally {
      stall.end();
    }
  }

  #metadata(): ReturnType<typeof nodeMetadata> {
    const identity = this.#identity();
    if (identity === undefined) throw new CapstanError('UNAVAILABLE', 'the node has not joined');
    const metadata = nodeMetadata(identity);
    // While the owner of the queue is searched, a transfer waits for it.
    metadata.setOptions({ waitForReady: true });
    return metadata;
  }
}

/**
 * Whether to retry: the scheduler is unavailable, busy or does not know this node yet; the body itself was not refused.
 */
function isTransient(thrown: unknown): boolean {
  switch (fromServiceError(thrown).code) {
    case 'UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
    case 'RATE_LIMITED':
    case 'INTERNAL':
    case 'UNAUTHENTICATED':
    case 'PERMISSION_DENIED':
      return true;
    default:
      return false;
  }
}

interface StallGuard {
  moved(): void;
  /** Why the guard cancelled the transfer, if it did. */
  reason(): CapstanError | undefined;
  end(): void;
}

/** Cancels a transfer that stalls or is no longer wanted. */
function guard(stream: { cancel(): void }, signal: AbortSignal): StallGuard {
  let reason: CapstanError | undefined;
  const stop = (code: 'DEADLINE_EXCEEDED' | 'CONFLICT', message: string): void => {
    reason ??= new CapstanError(code, message);
    stream.cancel();
  };
  const onAbort = (): void => stop('CONFLICT', 'the transfer was cancelled');
  const timer = setTimeout(() => stop('DEADLINE_EXCEEDED', `the transfer stalled for ${STALL_MS} ms`), STALL_MS);
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  return {
    moved: () => {
      timer.refresh();
    },
    reason: () => reason,
    end: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    },
  };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
}
