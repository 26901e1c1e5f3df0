/**
 * Stores builds in S3-compatible storage and bodies of jobs in the folder, so that several hosts, or a replacement
 * host, find the builds. The folder receives a build first and checks its bytes. The build is then sent with its
 * SHA-256, which the storage checks again, so a broken upload stores nothing under the build's name.
 */
import { createReadStream } from 'node:fs';
import { unlink } from 'node:fs/promises';

import { AwsClient } from 'aws4fetch';

import { CapstanError } from '../../lib/errors.ts';
import type { BlobStore } from './blob-store.ts';
import { blobNotFound, buildId } from './ids.ts';
import type { BlobHeader, FileBlobStore, ReadableBlob, StoredBlob } from './file-store.ts';

const PIECE_BYTES = 256 * 1024;

export interface S3Config {
  /** Base URL of the storage; the bucket is part of the path. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  /** Secret. */
  readonly secretAccessKey: string;
}

export class S3BlobStore implements BlobStore {
  readonly #files: FileBlobStore;
  readonly #aws: AwsClient;
  readonly #base: string;
  /** Monotonic times at which this process put or queried builds. */
  readonly #heldAt = new Map<string, number>();

  constructor(files: FileBlobStore, { endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Config) {
    this.#files = files;
    this.#aws = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 3 });
    this.#base = `${endpoint.replace(/\/+$/, '')}/${bucket}`;
  }

  async put(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    if (header.kind !== 'build') return this.#files.put(header, source);
    const id = `build/${header.digest ?? ''}`;
    const isThere = async (): Promise<boolean> => (await this.hold(id)) === header.size;
    if (header.unproven !== true && (await isThere())) return { id, size: header.size, existed: true };
    const staged = await this.#files.put(header, source);
    try {
      if (header.unproven !== true || !(await isThere())) await this.#upload(staged.id, header.digest ?? '', staged.size);
    } finally {
      await this.#files.delete(staged.id);
    }
    this.#heldAt.set(id, performance.now());
    return { ...staged, existed: false };
  }

  /** The file stays until the storage has it: a retry does not need another upload from the client. */
  async adopt({ size, digest }: { readonly size: number; readonly digest: string }, file: string): Promise<StoredBlob> {
    const id = buildId(digest);
    const existed = (await this.hold(id)) === size;
    if (!existed) {
      await this.#send(id, digest, size, createReadStream(file, { highWaterMark: PIECE_BYTES }));
      this.#heldAt.set(id, performance.now());
    }
    await unlink(file);
    return { id, size, existed };
  }

  async get(id: string): Promise<ReadableBlob> {
    if (!isBuild(id)) return this.#files.get(id);
    const response = await this.#call('GET', id);
    const { body } = response;
    if (response.status === 404 || body === null) throw blobNotFound(id);
    return {
      size: Number(response.headers.get('content-length')),
      pieces: piecesOf(body),
      close: () => void body.cancel().catch(() => undefined),
    };
  }

  async size(id: string): Promise<number | null> {
    if (!isBuild(id)) return this.#files.size(id);
    const response = await this.#call('HEAD', id);
    return response.status === 404 ? null : Number(response.headers.get('content-length'));
  }

  async hold(id: string): Promise<number | null> {
    if (!isBuild(id)) return this.#files.hold(id);
    this.#heldAt.set(id, performance.now());
    const size = await this.size(id);
    // Forgets missing names: callers may query any number of them.
    if (size === null) this.#heldAt.delete(id);
    return size;
  }

  async delete(id: string): Promise<boolean> {
    if (!isBuild(id)) return this.#files.delete(id);
    const there = (await this.size(id)) !== null;
    await this.#call('DELETE', id);
    this.#heldAt.delete(id);
    return there;
  }

  async *olderThan(ageMs: number): AsyncGenerator<string> {
    yield* this.#files.olderThan(ageMs);
    for (let token = ''; ;) {
      const query = new URLSearchParams({ 'list-type': '2', prefix: 'build/', ...(token === '' ? {} : { 'continuation-token': token }) });
      const text = await (await this.#request('GET', `${this.#base}?${query.toString()}`)).text();
      for (const [, id = '', at = ''] of text.matchAll(/<Key>(build\/[0-9a-f]{64})<\/Key>[^]*?<LastModified>([^<]+)<\/LastModified>/g)) {
        if (Date.now() - Date.parse(at) >= ageMs && !this.wasPutWithin(id, ageMs)) yield id;
      }
      token = /<NextContinuationToken>([^<]+)</.exec(text)?.[1] ?? '';
      if (token === '') return;
    }
  }

  async isOlderThan(id: string, ageMs: number): Promise<boolean> {
    if (!isBuild(id)) return this.#files.isOlderThan(id, ageMs);
    const response = await this.#call('HEAD', id);
    const at = Date.parse(response.headers.get('last-modified') ?? '');
    return response.status !== 404 && Date.now() - at >= ageMs && !this.wasPutWithin(id, ageMs);
  }

  wasPutWithin(id: string, ageMs: number): boolean {
    if (!isBuild(id)) return this.#files.wasPutWithin(id, ageMs);
    const at = this.#heldAt.get(id);
    if (at === undefined) return false;
    if (performance.now() - at < ageMs) return true;
    this.#heldAt.delete(id);
    return false;
  }

  async #upload(id: string, digest: string, size: number): Promise<void> {
    const { pieces } = await this.#files.get(id);
    await this.#send(id, digest, size, pieces);
  }

  async #send(id: string, digest: string, size: number, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const headers = { 'x-amz-content-sha256': digest, 'content-length': String(size) };
    // Signed without the body: its hash is known, and a stream can be sent only once.
    const signed = await this.#aws.sign(`${this.#base}/${id}`, { method: 'PUT', headers });
    await this.#answered(
      fetch(signed.url, { method: 'PUT', headers: signed.headers, body: ReadableStream.from(pieces), duplex: 'half' }),
      id,
    );
  }

  #call(method: string, id: string): Promise<Response> {
    return this.#request(method, `${this.#base}/${id}`);
  }

  #request(method: string, url: string): Promise<Response> {
    return this.#answered(this.#aws.fetch(url, { method }), url);
  }

  /** 404 is a valid response. Any other response without success makes the artifact store unavailable. */
  async #answered(asked: Promise<Response>, what: string): Promise<Response> {
    const response = await asked.catch((cause: unknown) => {
      throw new CapstanError('UNAVAILABLE', 'the artifact store is unreachable', { retryAfterMs: 1_000, cause });
    });
    if (response.ok || response.status === 404) return response;
    const cause = new Error(`${what}: ${response.status} ${(await response.text()).slice(0, 500)}`);
    throw new CapstanError('UNAVAILABLE', `the artifact store responded with status ${response.status}`, { retryAfterMs: 1_000, cause });
  }
}

function isBuild(id: string): boolean {
  return id.startsWith('build/');
}

async function* piecesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    for (let start = 0; start < chunk.length; start += PIECE_BYTES) yield Buffer.from(chunk.subarray(start, start + PIECE_BYTES));
  }
}
