/** Reads a blob from the store, frame by frame: a slow reader slows the store down. */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import type { BlobServiceClient, GetBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';

export interface OpenBlob {
  /** Bytes. */
  readonly size: number;
  /** Ending it early cancels the call, if reading has begun. */
  readonly frames: AsyncIterable<Buffer>;
  /** Cancels the call: of one that nobody reads, which would stay open. */
  close(): void;
}

/** Resolves once the store has found the blob; rejects with the library's error. */
export async function openBlob(client: BlobServiceClient, id: string, metadata: Metadata): Promise<OpenBlob> {
  const call = client.get({ id }, metadata);
  const messages = call[Symbol.asyncIterator]() as AsyncIterator<GetBlobResponse, undefined>;
  const first = await messages.next();
  const part = first.done === true ? undefined : first.value.part;
  if (part?.$case !== 'size') {
    call.cancel();
    throw new CapstanError('INTERNAL', 'the blob store returned no size');
  }
  const close = (): void => call.cancel();
  return { size: part.value, frames: framesOf(messages, close), close };
}

async function* framesOf(messages: AsyncIterator<GetBlobResponse, undefined>, cancel: () => void): AsyncGenerator<Buffer, void> {
  try {
    for (;;) {
      const next = await messages.next();
      if (next.done === true) return;
      if (next.value.part?.$case === 'data') yield next.value.part.value;
    }
  } finally {
    cancel();
  }
}
