/** Bodies that are too large for messages and rows, in memory: a gateway and a node keep them apart from the queue. */
import { randomUUID } from 'node:crypto';

import { CapstanError } from '../lib/errors.ts';
import type { BlobReference, Payload } from '../lib/payload.ts';

export class DevBodies {
  readonly #bodies = new Map<string, Buffer>();

  async put(bytes: Buffer): Promise<BlobReference> {
    const id = `body/${randomUUID()}`;
    this.#bodies.set(id, bytes);
    return Promise.resolve({ id, size: bytes.length });
  }

  /** @throws CapstanError NOT_FOUND */
  async get({ id }: BlobReference): Promise<Buffer> {
    const bytes = this.#bodies.get(id);
    if (bytes === undefined) throw new CapstanError('NOT_FOUND', `body ${id} does not exist`);
    return Promise.resolve(bytes);
  }

  async open(reference: BlobReference): Promise<AsyncIterable<Buffer>> {
    return chunksOf(await this.get(reference));
  }

  async read(payload: Payload): Promise<Buffer> {
    return 'inline' in payload ? Buffer.from(payload.inline) : this.get(payload.blob);
  }

  drop(ids: readonly string[]): void {
    for (const id of ids) this.#bodies.delete(id);
  }
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield await Promise.resolve(bytes);
}
