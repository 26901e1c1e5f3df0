/**
 * Stores builds, and bodies of jobs where they are not in a folder, in S3-compatible storage: every scheduler has the
 * same blobs, and so has a replacement host.
 *
 * - A blob is received into a local file first, which may be sent again when the storage is busy. It is sent with its
 *   SHA-256, which the storage checks, so a broken upload stores nothing under the blob's name. The reader checks it too.
 * - A body is checked against the digest in its name before its first byte is returned: it is copied into a local file first.
 * - Ages are by the storage's own clock: `Last-Modified` against the `Date` of the same response.
 * - A blob that is about to be named is copied onto itself unless it is young. So another scheduler's sweep keeps it.
 * - A blob that is not in the storage is looked for in the folder, where earlier settings put it.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { Readable } from 'node:stream';

import { CapstanError } from '../../lib/errors.ts';
import type { BlobStore } from './blob-store.ts';
import type { BlobHeader, FileBlobStore, ReadableBlob, StoredBlob } from './file-store.ts';
import { digestOfBody } from '../../lib/body-id.ts';
import { isIntactBuild } from './build-check.ts';
import { bodyDamaged, buildId, isBlobId, lengthOf } from './ids.ts';
import { MARK, type MarkPlace } from './store-mark.ts';
import { PutTimes } from './put-times.ts';
import type { S3Config } from '../config.ts';
import { S3Client, type S3Response } from './s3-client.ts';
import { DIGEST, readable } from './s3-reading.ts';

const PIECE_BYTES = 256 * 1024;
/** A blob of at least this age is made young before it is named, ms. A quarter of the age at which orphans are removed. */
const YOUNG_MS = 900_000;
export interface S3StoreOptions {
  /** Also stores the bodies of jobs; otherwise they are in the folder. */
  readonly holdsBodies?: boolean;
  readonly onFault?: (error: unknown) => void;
}

export class S3BlobStore implements BlobStore {
  readonly #files: FileBlobStore;
  readonly #client: S3Client;
  readonly #holdsBodies: boolean;
  readonly #times = new PutTimes();

  constructor(files: FileBlobStore, config: S3Config, { holdsBodies = false, onFault = () => undefined }: S3StoreOptions = {}) {
    this.#files = files;
    this.#client = new S3Client(config, onFault);
    this.#holdsBodies = holdsBodies;
  }

  async put(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    if (!this.#holds(header.kind)) return this.#files.put(header, source);
    if (header.kind === 'build' && header.unproven !== true) {
      const id = buildId(header.digest ?? '');
      if ((await this.hold(id)) === header.size) return { id, size: header.size, existed: true };
    }
    const staged = await this.#files.stage(header, source);
    try {
      const stored = { ...staged, size: staged.storedSize };
      if (header.kind === 'body' || !(await this.#hasIntact(stored))) await this.#send(stored, staged.file);
    } finally {
      await unlink(staged.file);
    }
    return { id: staged.id, size: header.size, existed: false };
  }

  /** The file stays until the storage has it: a retry does not need another upload from the client. */
  async adopt({ size, digest }: { readonly size: number; readonly digest: string }, file: string): Promise<StoredBlob> {
    const id = buildId(digest);
    const existed = await this.#hasIntact({ id, size, digest });
    if (!existed) await this.#send({ id, size, digest }, file);
    await unlink(file);
    return { id, size, existed };
  }

  /** Whether a build is there and not damaged: reading it costs about as much as sending it again, and keeps the object. */
  async #hasIntact({ id, size, digest }: { readonly id: string; readonly size: number; readonly digest: string }): Promise<boolean> {
    return (await this.hold(id)) === size && (await isIntactBuild(digest, await this.get(id)));
  }

  async get(id: string): Promise<ReadableBlob> {
    if (!this.#holdsId(id)) return this.#files.get(id);
    // A body that is damaged on its way is whole when it is read again.
    for (let tries = digestOfBody(id) === null ? 1 : 2; tries > 0; tries -= 1) {
      const response = await this.#client.send({ method: 'GET', key: id });
      if (response === null) return this.#files.get(id);
      const blob = readable(this.#client, id, response);
      if (digestOfBody(id) === null) return blob;
      const checked = await this.#files.checked(id, blob);
      if (checked !== null) return checked;
    }
    throw bodyDamaged(id);
  }

  async size(id: string): Promise<number | null> {
    if (!this.#holdsId(id)) return this.#files.size(id);
    const response = await this.#client.ask({ method: 'HEAD', key: id });
    return response === null ? this.#files.size(id) : lengthOf(id, sizeOf(response));
  }

  async hold(id: string): Promise<number | null> {
    if (!this.#holdsId(id)) return this.#files.hold(id);
    await this.#times.pin(id);
    const response = await this.#client.ask({ method: 'HEAD', key: id });
    if (response === null) {
      // Forgets missing names: callers may query any number of them.
      this.#times.forget(id);
      return this.#files.hold(id);
    }
    if (ageOf(response) >= YOUNG_MS) await this.#makeYoung(id, response);
    return lengthOf(id, sizeOf(response));
  }

  async delete(id: string): Promise<boolean> {
    const local = await this.#files.delete(id);
    if (!this.#holdsId(id)) return local;
    await this.#times.remove(id, async () => {
      await this.#client.ask({ method: 'DELETE', key: id });
      return true;
    });
    return true;
  }

  async *olderThan(ageMs: number): AsyncGenerator<string> {
    yield* this.#files.olderThan(ageMs);
    for (const prefix of this.#holdsBodies ? ['build/', 'body/'] : ['build/']) {
      for (let token: string | undefined = ''; token !== undefined;) {
        const query = { 'list-type': '2', prefix, ...(token === '' ? {} : { 'continuation-token': token }) };
        const response = await this.#client.send({ method: 'GET', key: '', query });
        const text = (await response?.body.text()) ?? '';
        const now = response === null ? 0 : clockOf(response);
        for (const [, id = '', at = ''] of text.matchAll(/<Key>([^<]+)<\/Key>[^]*?<LastModified>([^<]+)<\/LastModified>/g)) {
          if (isBlobId(id) && now - Date.parse(at) >= ageMs && !this.wasPutWithin(id, ageMs)) yield id;
        }
        token = /<NextContinuationToken>([^<]+)</.exec(text)?.[1]?.replaceAll('&amp;', '&');
      }
    }
  }

  async isOlderThan(id: string, ageMs: number): Promise<boolean> {
    if (!this.#holdsId(id)) return this.#files.isOlderThan(id, ageMs);
    const response = await this.#client.ask({ method: 'HEAD', key: id });
    if (response === null) return this.#files.isOlderThan(id, ageMs);
    return ageOf(response) >= ageMs && !this.wasPutWithin(id, ageMs);
  }

  wasPutWithin(id: string, ageMs: number): boolean {
    return this.#holdsId(id) ? this.#times.isWithin(id, ageMs) : this.#files.wasPutWithin(id, ageMs);
  }

  sweepIncoming(ageMs: number): Promise<number> {
    return this.#files.sweepIncoming(ageMs);
  }

  /** The object that names the store. */
  get mark(): MarkPlace {
    const { bucket } = this.#client;
    const put = async (id: string, conditions: Readonly<Record<string, string>> = {}): Promise<void> => {
      const bytes = Buffer.from(id);
      const digest = createHash('sha256').update(bytes).digest('hex');
      const headers = { 'x-amz-content-sha256': digest, 'content-length': String(bytes.length), ...conditions };
      await this.#client.ask({ method: 'PUT', key: MARK, headers, body: () => Readable.from([bytes]) });
    };
    const read = async (): Promise<string | null> => {
      const response = await this.#client.send({ method: 'GET', key: MARK });
      return response === null ? null : response.body.text();
    };
    return {
      name: `CAPSTAN_S3_BUCKET: ${bucket}`,
      read,
      replace: (id) => put(id),
      // The storage refuses the second of two at once; one that ignores the condition is asked first.
      create: async (id) => ((await read()) === null ? put(id, { 'if-none-match': '*' }) : undefined),
    };
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #holds(kind: BlobHeader['kind']): boolean {
    return kind === 'build' || this.#holdsBodies;
  }

  #holdsId(id: string): boolean {
    return this.#holdsBodies || id.startsWith('build/');
  }

  async #send({ id, size, digest }: { readonly id: string; readonly size: number; readonly digest: string }, file: string): Promise<void> {
    await this.#times.pin(id);
    const headers = { 'x-amz-content-sha256': digest, 'content-length': String(size), [DIGEST]: digest };
    await this.#client.ask({ method: 'PUT', key: id, headers, body: () => piecesOf(file) });
    await this.#times.pin(id);
  }

  /** Copies a blob onto itself, within the storage: its age begins anew for the sweeps of all schedulers. */
  async #makeYoung(id: string, { headers }: S3Response): Promise<void> {
    const digest = headers.get(DIGEST);
    const copy = {
      'x-amz-copy-source': `/${this.#client.bucket}/${id}`,
      'x-amz-metadata-directive': 'REPLACE',
      ...(digest === undefined ? {} : { [DIGEST]: digest }),
    };
    const response = await this.#client.send({ method: 'PUT', key: id, headers: copy });
    // A copy that fails midway has the status 200, too.
    const text = (await response?.body.text()) ?? '<Error>';
    if (text.includes('<Error>'))
      throw new CapstanError('UNAVAILABLE', 'the artifact store could not renew a blob', {
        retryAfterMs: 1_000,
        cause: new Error(`copy of ${id}`),
      });
  }
}

/** Opens the file when the first piece is wanted: a request that is never sent leaves no file open. */
async function* piecesOf(file: string): AsyncGenerator<Uint8Array> {
  for await (const piece of createReadStream(file, { highWaterMark: PIECE_BYTES })) yield piece as Buffer;
}

function sizeOf({ headers }: S3Response): number {
  const size = Number(headers.get('content-length') ?? Number.NaN);
  if (Number.isSafeInteger(size)) return size;
  throw new CapstanError('UNAVAILABLE', 'the artifact store did not name the length of a blob', { retryAfterMs: 1_000 });
}

/** Age by the storage's own clock, ms. */
function ageOf(response: S3Response): number {
  return clockOf(response) - Date.parse(response.headers.get('last-modified') ?? '');
}

/** The storage's clock, ms since 1970. */
function clockOf({ headers }: S3Response): number {
  return Date.parse(headers.get('date') ?? '');
}
