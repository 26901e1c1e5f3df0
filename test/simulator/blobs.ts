/** The blob store of the simulated world: large documents, each with a short text that tells whose it is. */
import type { BlobReference } from '../../lib/payload.ts';
import type { Payload } from '../../proto/gen/capstan/v1/common.ts';

/** Every document is said to have this size, bytes: too large to travel inline. */
export const LARGE_BYTES = 70_000;

export class SimBlobs {
  readonly #texts = new Map<string, string>();

  put(text: string): BlobReference {
    const id = `body/${this.#texts.size.toString(16).padStart(32, '0')}`;
    this.#texts.set(id, text);
    return { id, size: LARGE_BYTES };
  }

  read(id: string): string {
    const text = this.#texts.get(id);
    if (text === undefined) throw new Error(`the blob ${id} is not there`);
    return text;
  }

  textOf({ body }: Payload): string {
    switch (body?.$case) {
      case 'inline':
        return body.value.toString().trimEnd();
      case 'blob':
        return this.read(body.value.id);
      case undefined:
        return '';
    }
  }
}
