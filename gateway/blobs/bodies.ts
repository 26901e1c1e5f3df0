/** Stores bodies above 64 KiB in the blob store before a job refers to them, and streams them into responses. */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { asBuffer, type BlobReference, type Payload } from '../../lib/payload.ts';
import { BlobPurpose, type BlobServiceClient, type PutBlobRequest } from '../../proto/gen/capstan/v1/blobs.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';
import { openBlob } from './open-blob.ts';
import { backoffMs } from '../../lib/backoff.ts';

const FRAME_BYTES = 256 * 1024;
/** Interruptions of a body without a further byte in between. */
const RESUMES = 3;

export class Bodies {
  readonly #client: BlobServiceClient;
  readonly #metadata: Metadata;
  /** Time for which a put, or the start of a get, is retried while the store is unavailable, ms. */
  readonly #patienceMs: number;
  readonly #now: () => number;

  constructor(client: BlobServiceClient, metadata: Metadata, patienceMs: number, now: () => number) {
    this.#client = client;
    this.#metadata = metadata;
    this.#patienceMs = patienceMs;
    this.#now = now;
  }

  /**
   * The body is durable when the promise resolves. An interrupted put leaves an orphan, which the store sweeps.
   * `accountId`: whose quota is checked before the bytes are stored; without it, the submission checks the quota.
   * @throws CapstanError QUOTA_EXCEEDED when the account's quota has no room for it.
   */
  async put(bytes: Buffer, accountId: string | undefined): Promise<BlobReference> {
    return this.#retrying(async () => this.#putOnce(bytes, accountId));
  }

  /**
   * Opens a body. Resolves once the store has it (else NOT_FOUND); the frames follow as they are read. Ending the
   * iteration early ends the call.
   */
  async open(ref: BlobReference): Promise<AsyncIterable<Buffer>> {
    return this.#resumed(ref, await this.#retrying(async () => this.#openOnce(ref)));
  }

  /** Continues after an interruption with the bytes that are still missing: a body never changes. */
  async *#resumed(ref: BlobReference, opened: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let passed = 0;
    let source = opened;
    for (let fruitless = 0; ; fruitless += 1) {
      const before = passed;
      let skipped = passed;
      try {
        for await (const frame of source) {
          const rest = frame.subarray(Math.min(skipped, frame.length));
          skipped -= frame.length - rest.length;
          if (rest.length === 0) continue;
          passed += rest.length;
          yield rest;
        }
        return;
      } catch (thrown) {
        if (passed > before) fruitless = 0;
        if (fruitless >= RESUMES || schedulerRefusal(thrown).code !== 'UNAVAILABLE') throw thrown;
        source = await this.#retrying(async () => this.#openOnce(ref));
      }
    }
  }

  /** Reads a whole payload. */
  async read(payload: Payload): Promise<Buffer> {
    if ('inline' in payload) return asBuffer(payload.inline);
    const frames: Buffer[] = [];
    for await (const frame of await this.open(payload.blob)) frames.push(frame);
    return Buffer.concat(frames);
  }

  async #retrying<T>(action: () => Promise<T>): Promise<T> {
    const end = this.#now() + this.#patienceMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await action();
      } catch (thrown) {
        const error = schedulerRefusal(thrown);
        const wait = backoffMs(attempt);
        if (error.code !== 'UNAVAILABLE' || this.#now() + wait > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  #putOnce(bytes: Buffer, accountId: string | undefined): Promise<BlobReference> {
    return new Promise((resolve, reject) => {
      const call = this.#client.put(this.#metadata, { deadline: Date.now() + this.#patienceMs }, (error, response) => {
        if (error !== null) reject(schedulerRefusal(error));
        else resolve({ id: response.id, size: bytes.length });
      });
      let offset = 0;
      const writeMore = (): void => {
        while (offset < bytes.length) {
          const data = bytes.subarray(offset, offset + FRAME_BYTES);
          offset += data.length;
          if (!call.write({ part: { $case: 'data', value: data } } satisfies PutBlobRequest)) {
            call.once('drain', writeMore);
            return;
          }
        }
        call.end();
      };
      call.write({
        part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '', accountId } },
      } satisfies PutBlobRequest);
      writeMore();
    });
  }

  async #openOnce(ref: BlobReference): Promise<AsyncIterable<Buffer>> {
    const { size, frames, close } = await openBlob(this.#client, ref.id, this.#metadata);
    if (size === ref.size) return frames;
    close();
    throw new CapstanError('INTERNAL', 'the blob store returned a different size');
  }
}
