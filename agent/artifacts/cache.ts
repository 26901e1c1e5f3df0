/**
 * Cache of unpacked builds under `<data>/agent/cache/<digest>/`. Each build is fetched once for all workers, verified
 * by SHA-256 before it is unpacked, and moved into place by one rename.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Logger } from 'pino';
import { z } from 'zod';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { makeFolder, moveUnsynced, replaceDurably, syncPath, syncTree } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { BlobTransfer } from '../blobs/blob-transfer.ts';
import { bootId } from './boot-id.ts';
import { fingerprintOf, verified, type Fingerprint } from './fingerprint.ts';
import { sizeOfTree } from './size-of-tree.ts';
import { unpack, UNPACK_LIMITS, type UnpackLimits } from './unpack.ts';

const DIGEST = /^[0-9a-f]{64}$/;
/** Prefix of unfinished entries; they are removed when the cache opens. */
const UNFINISHED = '.new-';
/** Suffix of the note beside a build. The note is written first: a build without one is incomplete. */
const NOTE_SUFFIX = '.note';
/** Tries to remove an unfinished entry; the pauses grow by this much each, ms. */
const REMOVAL_TRIES = 30;
const REMOVAL_PAUSE_MS = 20;
/** Largest artifact, bytes. */
const MAX_ARTIFACT_BYTES = ARTIFACT_LIMITS.bytes;

export interface CacheOptions {
  readonly folder: string;
  readonly maxBytes: number;
  readonly blobs: Pick<BlobTransfer, 'frames'>;
  readonly log: Logger;
  readonly limits?: UnpackLimits;
  /** Compiles the sources of an unpacked build; returns the bytes that it wrote. Called for one build at a time. */
  readonly compile?: (folder: string, signal: AbortSignal) => Promise<number>;
}

/** A build in use. It is not evicted until each acquire has been released. */
export interface HeldBuild {
  readonly folder: string;
  release(): void;
}

const noteSchema = z.object({
  /** Unpacked size. */
  bytes: z.number().int().nonnegative(),
  /**
   * Boot id under which the files were written, until all of them are synced; then null. Workers do not wait for the
   * sync; after a power failure an unsynced build may be incomplete and is fetched again.
   */
  unsyncedIn: z.string().nullable(),
  /** Fingerprint at unpacking; absent in notes of earlier versions. */
  fingerprint: z.object({ facts: z.string(), contents: z.string() }).optional(),
});

interface Build {
  bytes: number;
  fingerprint: Fingerprint;
  /** Wall clock, ms; stored as the folder's modification time, so it survives restarts. */
  usedAt: number;
  holders: number;
  /** A worker of it could not start: its contents are read before the next one gets it. */
  isDoubted: boolean;
}

export class ArtifactCache {
  readonly #options: CacheOptions;
  readonly #builds = new Map<string, Build>();
  readonly #fetches = new Map<string, Promise<void>>();
  readonly #syncs = new Set<Promise<void>>();
  /** The last compilation that is due: each takes a processor, and memory for the code of the largest source. */
  #compiling = Promise.resolve();
  readonly #closed = new AbortController();

  private constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** Loads the builds of an earlier agent and removes unfinished ones. */
  static async open(options: CacheOptions): Promise<ArtifactCache> {
    const cache = new ArtifactCache(options);
    await makeFolder(options.folder, 0o777);
    // Stops Node's search for a package.json: a cache inside a checkout must not inherit the checkout's module type.
    await writeFile(join(options.folder, 'package.json'), '{}\n');
    const names = await readdir(options.folder);
    for (const name of names) {
      if (name.startsWith(UNFINISHED)) await rm(join(options.folder, name), { recursive: true, force: true });
      else if (DIGEST.test(name)) await cache.#adopt(name);
      else if (name.endsWith(NOTE_SUFFIX) && !names.includes(name.slice(0, -NOTE_SUFFIX.length))) await rm(join(options.folder, name));
    }
    return cache;
  }

  /**
   * Returns the folder of a build; fetches the build if it is missing. Throws INVALID_ARCHIVE, NOT_FOUND, UNAVAILABLE,
   * DATA_DIR.
   */
  async acquire(digest: string): Promise<HeldBuild> {
    if (!DIGEST.test(digest))
      throw new CapstanError('INVALID_ARGUMENT', 'build_digest must be a SHA-256 in hex', { field: 'build_digest' });
    const present = this.#builds.get(digest);
    if (present !== undefined) await this.#once(digest, () => this.#verify(digest, present));
    while (!this.#builds.has(digest)) await this.#once(digest, () => this.#fetch(digest));
    const build = this.#builds.get(digest);
    if (build === undefined) throw new CapstanError('INTERNAL', `build ${digest} disappeared`);
    build.holders += 1;
    build.usedAt = Date.now();
    const folder = this.#path(digest);
    const now = new Date(build.usedAt);
    await utimes(folder, now, now);
    let held = true;
    return {
      folder,
      release: () => {
        if (held) build.holders -= 1;
        held = false;
      },
    };
  }

  /** A worker of the build ended before it was ready: the build may be damaged on the disk. */
  doubt(digest: string): void {
    const build = this.#builds.get(digest);
    if (build !== undefined) build.isDoubted = true;
  }

  /** Digests of the cached builds, most recently used first. */
  get digests(): string[] {
    return [...this.#builds].sort(([, a], [, b]) => b.usedAt - a.usedAt).map(([digest]) => digest);
  }

  /** Cancels the running fetches. */
  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.allSettled([...this.#fetches.values(), ...this.#syncs]);
  }

  /** Runs at most one fetch or verification of a build at a time. */
  #once(digest: string, look: () => Promise<void>): Promise<void> {
    const running = this.#fetches.get(digest);
    if (running !== undefined) return running;
    const started = look().finally(() => this.#fetches.delete(digest));
    this.#fetches.set(digest, started);
    return started;
  }

  /** Fetches a build again if a worker changed it, before another worker gets it. */
  async #verify(digest: string, build: Build): Promise<void> {
    const seen = await verified(this.#path(digest), build.fingerprint, build.isDoubted).catch(() => undefined);
    build.isDoubted = false;
    if (seen === undefined) {
      this.#options.log.warn({ digest }, 'a build was modified or damaged after it was unpacked; fetching it again');
      await this.#fetch(digest);
      return;
    }
    build.fingerprint = seen;
  }

  async #fetch(digest: string): Promise<void> {
    const unfinished = this.#path(`${UNFINISHED}${randomUUID()}`);
    try {
      await mkdir(join(unfinished, 'build'), { recursive: true });
      const archive = join(unfinished, 'archive');
      await this.#download(digest, archive);
      const { bytes, entries } = await unpack(createReadStream(archive), join(unfinished, 'build'), this.#options.limits ?? UNPACK_LIMITS);
      const fingerprint = await fingerprintOf(join(unfinished, 'build'));
      await this.#note(digest, { bytes, unsyncedIn: await bootId(), fingerprint });
      const before = this.#builds.get(digest);
      // The changed build is replaced; its workers find the same files under the same path immediately.
      if (before !== undefined) await moveUnsynced(this.#path(digest), join(unfinished, 'changed'));
      // The note says that the build is not synced yet.
      await moveUnsynced(join(unfinished, 'build'), this.#path(digest));
      const build = { bytes, fingerprint, usedAt: Date.now(), holders: 0, isDoubted: false };
      if (before === undefined) this.#builds.set(digest, build);
      else before.fingerprint = fingerprint;
      this.#syncLater(digest, before ?? build);
      this.#options.log.info({ digest, bytes, entries }, 'build unpacked');
    } catch (error) {
      if (error instanceof CapstanError) throw error;
      const reason = messageOf(error);
      throw new CapstanError('DATA_DIR', `storing the build on this node failed: ${reason}`, { cause: error });
    } finally {
      await this.#remove(unfinished);
    }
    await this.#evict(digest);
  }

  /**
   * Removes an unfinished entry. The archive library still writes the entries that it had begun when an archive is refused: they come
   * into folders that are being removed, for a moment. What cannot be removed must not hide why the build was refused.
   */
  async #remove(unfinished: string): Promise<void> {
    try {
      await rm(unfinished, { recursive: true, force: true, maxRetries: REMOVAL_TRIES, retryDelay: REMOVAL_PAUSE_MS });
    } catch (error) {
      this.#options.log.warn(
        { folder: unfinished, error: messageOf(error) },
        'removing an unfinished build failed; the next start tries again',
      );
    }
  }

  /** Compiles and syncs in the background: the build is already in use. A compiled file that a power cut truncated would stay. */
  #syncLater(digest: string, build: Build): void {
    const compiled = this.#compiling.then(() => this.#compile(digest, build));
    this.#compiling = compiled;
    const sync = compiled.then(() => this.#sync(digest, build)).finally(() => this.#syncs.delete(sync));
    this.#syncs.add(sync);
  }

  /** The build stays meanwhile. Never rejects. */
  async #compile(digest: string, build: Build): Promise<void> {
    const { compile, log } = this.#options;
    const { signal } = this.#closed;
    // It may have been evicted since.
    if (compile === undefined || signal.aborted || this.#builds.get(digest) !== build) return;
    build.holders += 1;
    const folder = this.#path(digest);
    try {
      const bytes = await compile(folder, signal);
      build.bytes += bytes;
      if (bytes > 0) log.debug({ digest, bytes }, 'sources of the build compiled');
    } catch (error) {
      // The next agent compiles it.
      if (signal.aborted) return;
      // Workers compile what they import.
      log.warn({ digest, error: messageOf(error) }, 'compiling the sources of a build failed');
      // What it had written until then is on the disk.
      build.bytes = await sizeOfTree(folder).catch(() => build.bytes);
    } finally {
      build.holders -= 1;
    }
    await this.#evict(digest).catch((error: unknown) => log.warn({ error: messageOf(error) }, 'evicting builds failed'));
  }

  async #sync(digest: string, build: Build): Promise<void> {
    try {
      await syncTree(this.#path(digest), this.#closed.signal);
      await syncPath(this.#options.folder);
      // The build may have been evicted and fetched again since.
      if (this.#builds.get(digest) === build)
        await this.#note(digest, { bytes: build.bytes, unsyncedIn: null, fingerprint: build.fingerprint });
    } catch (error) {
      // The build was evicted or the agent is closing: the note still marks the build as unsynced.
      const reason = messageOf(error);
      this.#options.log.debug({ digest, reason }, 'syncing the build to disk failed');
    }
  }

  /** Replaces the note atomically and durably. */
  async #note(digest: string, note: z.output<typeof noteSchema>): Promise<void> {
    await replaceDurably(this.#notePath(digest), JSON.stringify(note));
  }

  async #download(digest: string, path: string): Promise<void> {
    const hash = createHash('sha256');
    const file = await open(path, 'wx', 0o600);
    let bytes = 0;
    try {
      for await (const frame of this.#options.blobs.frames(`build/${digest}`, this.#closed.signal)) {
        if ('size' in frame) continue;
        bytes += frame.data.length;
        if (bytes > MAX_ARTIFACT_BYTES) throw new CapstanError('INVALID_ARCHIVE', `the build has more than ${MAX_ARTIFACT_BYTES} bytes`);
        hash.update(frame.data);
        await file.writeFile(frame.data);
      }
    } finally {
      await file.close();
    }
    const found = hash.digest('hex');
    if (found !== digest) throw new CapstanError('INVALID_ARCHIVE', `the build has the digest ${found} instead of ${digest}`);
  }

  /** Evicts least recently used builds first; never one that is held, being fetched or equal to `keep`. */
  async #evict(keep: string): Promise<void> {
    let total = 0;
    for (const build of this.#builds.values()) total += build.bytes;
    const idle = [...this.#builds].filter(([digest, build]) => build.holders === 0 && digest !== keep && !this.#fetches.has(digest));
    idle.sort(([, a], [, b]) => a.usedAt - b.usedAt);
    for (const [digest, build] of idle) {
      if (total <= this.#options.maxBytes) return;
      // Another eviction may run.
      if (build.holders > 0 || this.#builds.get(digest) !== build) continue;
      total -= build.bytes;
      this.#builds.delete(digest);
      // Rename first: a partly removed build must not be taken for a complete one.
      const doomed = this.#path(`${UNFINISHED}${randomUUID()}`);
      await moveUnsynced(this.#path(digest), doomed);
      await rm(doomed, { recursive: true, force: true });
      await rm(this.#notePath(digest), { force: true });
      this.#options.log.info({ digest, bytes: build.bytes }, 'build evicted');
    }
  }

  async #adopt(digest: string): Promise<void> {
    const note = noteOf(await readFile(this.#notePath(digest), 'utf8').catch(() => ''));
    if (note === undefined || (note.unsyncedIn !== null && (note.unsyncedIn === '' || note.unsyncedIn !== (await bootId())))) {
      await rm(this.#path(digest), { recursive: true, force: true });
      await rm(this.#notePath(digest), { force: true });
      return;
    }
    const { mtimeMs } = await stat(this.#path(digest));
    // A note of an earlier version has no fingerprint: the build is accepted as it is.
    const fingerprint = note.fingerprint ?? (await fingerprintOf(this.#path(digest)));
    const build = { bytes: note.bytes, fingerprint, usedAt: mtimeMs, holders: 0, isDoubted: false };
    this.#builds.set(digest, build);
    if (note.unsyncedIn !== null) this.#syncLater(digest, build);
  }

  #path(name: string): string {
    return join(this.#options.folder, name);
  }

  #notePath(digest: string): string {
    return this.#path(`${digest}${NOTE_SUFFIX}`);
  }
}

function noteOf(text: string): z.output<typeof noteSchema> | undefined {
  try {
    return noteSchema.parse(JSON.parse(text));
  } catch {
    // The note is truncated or from an unknown version: the build is fetched again.
    return undefined;
  }
}
