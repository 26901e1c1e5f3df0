/** Builds from an HTTP request into the artifact store, piece by piece: a slow store slows the sender. */
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

const FRAME_BYTES = 256 * 1024;

export interface BuildPart {
  readonly digest: string;
  /** Bytes of the whole. */
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

  /** Whether a build is there; if not, the bytes that have come of it. What was asked about is kept for an hour. */
  async stat(digest: string, metadata: Metadata): Promise<StatBlobResponse> {
    return callUnary(this.#client.stat.bind(this.#client), { id: `build/${digest}` }, metadata, this.#timeoutMs);
  }

  /**
   * Stores the bytes under their digest, checked by the store. `offset` is where they begin in a build that comes in
   * parts; null for a whole one.
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
    // The stream's own error says the same as the reply's.
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
          // Answered early, the rest is read and dropped: a caller in the middle of sending need not notice.
          if (!state.answered) await send({ part: { $case: 'data', value: piece.subarray(start, start + FRAME_BYTES) } });
        }
      }
      if (!state.answered) call.end();
    })();
    // A caller that goes away in the middle breaks the source: the store must not wait for the rest. Of a part it keeps
    // what came, all of it.
    sending.catch(() => (offset === null ? call.cancel() : call.end()));
    const [response] = await Promise.all([reply.promise, sending]);
    return response;
  }
}
