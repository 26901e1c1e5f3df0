/** Streams builds from an HTTP request into the artifact store; a slow store slows the sender down. */
import type { Metadata } from '@grpc/grpc-js';

import {
  BlobPurpose,
  type BlobServiceClient,
  type PutBlobRequest,
  type PutBlobResponse,
  type StatBlobResponse,
} from '../../proto/gen/capstan/v1/blobs.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';
import { callUnary } from '../jobs/unary.ts';
import { openBlob, type OpenBlob } from './open-blob.ts';

const FRAME_BYTES = 256 * 1024;

export interface BuildPart {
  readonly digest: string;
  /** Size of the whole build, bytes. */
  readonly size: number;
  readonly offset: number | null;
}

export class BuildUploads {
  readonly #client: BlobServiceClient;
  readonly #timeoutMs: number;

  constructor(client: BlobServiceClient, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Returns whether a build is stored; if not, how many of its bytes have arrived. The store keeps them for another
   * hour.
   */
  async stat(digest: string, metadata: Metadata): Promise<StatBlobResponse> {
    return callUnary(this.#client.stat.bind(this.#client), { id: `build/${digest}` }, metadata, this.#timeoutMs);
  }

  /** Opens a build for reading. @throws CapstanError NOT_FOUND */
  async open(digest: string, metadata: Metadata): Promise<OpenBlob> {
    try {
      return await openBlob(this.#client, `build/${digest}`, metadata);
    } catch (thrown) {
      throw schedulerRefusal(thrown);
    }
  }

  /**
   * Stores the bytes under their digest, which the store checks. `offset` is the position of the bytes in a build that
   * is sent in parts; null for a whole build.
   */
  async put(part: BuildPart, source: AsyncIterable<Buffer>, metadata: Metadata): Promise<PutBlobResponse> {
    const { digest, size, offset } = part;
    const header = { purpose: BlobPurpose.BUILD, size, digest, ...(offset === null ? {} : { offset }) };
    const reply = Promise.withResolvers<PutBlobResponse>();
    const state = { answered: false, wake: (): void => undefined };
    const call = this.#client.put(metadata, (error, response) => {
      state.answered = true;
      if (error === null) reply.resolve(response);
      else reply.reject(schedulerRefusal(error));
      state.wake();
    });
    // The stream's error says the same as the reply's.
    call.on('error', () => undefined);
    call.on('drain', () => state.wake());
    const send = async (message: PutBlobRequest): Promise<void> => {
      if (call.write(message) || state.answered) return;
      await new Promise<void>((resolve) => {
        state.wake = resolve;
        if (state.answered) resolve();
      });
    };
    const sending = (async () => {
      await send({ part: { $case: 'header', value: header } });
      for await (const piece of source) {
        for (let start = 0; start < piece.length; start += FRAME_BYTES) {
          // After an early response the rest is read and dropped: a caller that is still sending may not notice the
          // response.
          if (!state.answered) await send({ part: { $case: 'data', value: piece.subarray(start, start + FRAME_BYTES) } });
        }
      }
      if (!state.answered) call.end();
    })();
    // A caller that disconnects breaks the source, so that the store does not wait for the rest. Of a part, the store
    // keeps every byte that arrived.
    sending.catch(() => (offset === null ? call.cancel() : call.end()));
    const [response] = await Promise.all([reply.promise, sending]);
    return response;
  }
}
