/** What the engine's images require of the driver: read once from the configuration of each image. */
import type Docker from 'dockerode';

import { requirementsOf } from '../../../lib/nvidia-requirement.ts';

/** Configurations read for one probe, which comes every few seconds. */
const MAX_INSPECTED = 32;
/** Bounds of nodes.proto, ImageRequirement. */
const MAX_EXPRESSIONS = 8;
const MAX_CHARACTERS = 4_096;

export class ImageRequirements {
  /** By id: an image never changes. */
  readonly #known = new Map<string, readonly string[]>();

  /** Requirements by reference; those of images that are not read yet come with a later probe. */
  async of(client: Docker, images: readonly string[], ids: ReadonlyMap<string, string>): Promise<ReadonlyMap<string, readonly string[]>> {
    const present = new Set(images.map((image) => ids.get(image) ?? image));
    for (const id of this.#known.keys()) if (!present.has(id)) this.#known.delete(id);
    const unread = [...present].filter((id) => !this.#known.has(id)).slice(0, MAX_INSPECTED);
    await Promise.all(unread.map(async (id) => this.#known.set(id, await read(client, id))));
    const found = images.map((image) => [image, this.#known.get(ids.get(image) ?? image) ?? []] as const);
    return new Map(found.filter(([, expressions]) => expressions.length > 0));
  }
}

/** An image that goes meanwhile requires nothing. */
async function read(client: Docker, id: string): Promise<readonly string[]> {
  try {
    const { Config } = (await client.getImage(id).inspect()) as { readonly Config?: { readonly Env?: readonly string[] | null } };
    const expressions = requirementsOf(Config?.Env ?? []);
    return expressions.filter(({ length }) => length <= MAX_CHARACTERS).slice(0, MAX_EXPRESSIONS);
  } catch {
    return [];
  }
}
