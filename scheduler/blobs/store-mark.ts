/**
 * The id of a blob store that several schedulers share: a file, or an object, `store-id` beside the blobs. The queue's record
 * names it, so that a scheduler whose shared folder is not mounted, or whose bucket is another one, does not take the queue
 * over without its bodies.
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { createDurably, replaceDurably } from '../../lib/durable.ts';
import { isErrno } from '../../lib/to-error.ts';

export const MARK = 'store-id';

/** Where a mark is kept. */
export interface MarkPlace {
  /** For messages: the setting and its value. */
  readonly name: string;
  /** Returns null if there is none. */
  read(): Promise<string | null>;
  /** Writes a first mark; keeps one that another process wrote meanwhile. */
  create(id: string): Promise<void>;
  replace(id: string): Promise<void>;
}

export function markInFolder(folder: string, name: string): MarkPlace {
  const file = join(folder, MARK);
  return {
    name,
    async read() {
      try {
        return (await readFile(file, 'utf8')).trim();
      } catch (error) {
        if (isErrno(error, 'ENOENT')) return null;
        throw error;
      }
    },
    create: async (id) => void (await createDurably(file, `${id}\n`)),
    replace: (id) => replaceDurably(file, `${id}\n`),
  };
}

export class StoreMark {
  readonly #place: MarkPlace;
  readonly #earlier: MarkPlace | null;
  #isChecked = false;

  /** @param earlier where blobs were before, and are still read from. */
  constructor(place: MarkPlace, earlier: MarkPlace | null = null) {
    this.#place = place;
    this.#earlier = earlier;
  }

  /** Returns why this is not the store with the id; null if it is. Once it was, it is not looked at again. */
  async refusal(id: string): Promise<string | null> {
    if (this.#isChecked) return null;
    const found = await this.#place.read();
    if (found === id) {
      this.#isChecked = true;
      return null;
    }
    if (found === null && (await this.#earlier?.read()) === id) {
      await this.#place.replace(id);
      return null;
    }
    const what = found === null ? `has no ${MARK}` : `has the ${MARK} of another store`;
    return `${this.#place.name} is not the blob store of the queue: it ${what}, and the queue's is ${id}; mount the right one, or copy ${MARK} with the blobs`;
  }

  /** Returns the store's id, and makes one unless it has one. */
  async id(): Promise<string> {
    const known = (await this.#place.read()) ?? (await this.#earlier?.read()) ?? randomUUID();
    await this.#place.create(known);
    return (await this.#place.read()) ?? known;
  }
}
