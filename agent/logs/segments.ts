/**
 * The segments of one endpoint's log: an open one that lines are appended to, and sealed ones, compressed, each with an index.
 * A crash leaves an open segment, which the next agent seals; a truncated last line is skipped.
 */
import { appendFile, readdir, readFile, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

import { isTemporary, makeFolder, renameDurably } from '../../lib/durable.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import type { LogTasks } from './log-tasks.ts';
import { SEALED, type SegmentFile } from './search.ts';
import { parseIndex, type SegmentIndex } from './segment-index.ts';

interface SealedSegment {
  readonly path: string;
  readonly index: SegmentIndex;
  /** Size on disk, bytes. */
  readonly bytes: number;
}

interface OpenSegment {
  readonly path: string;
  readonly firstUs: number;
  bytes: number;
  lastUs: number;
}

const OPEN = '.ndjson';
const NAME_DIGITS = 17;

export class Segments {
  readonly #folder: string;
  readonly #endpointId: string;
  readonly #segmentBytes: number;
  readonly #tasks: LogTasks;
  #open: OpenSegment | undefined;
  /** Oldest first. */
  #sealed: SealedSegment[] = [];
  /** Closed segments that are not compressed yet, by path, with their size. */
  readonly #sealing = new Map<string, { readonly done: Promise<void>; readonly bytes: number; readonly firstUs: number }>();
  /** Closed segments that could not be compressed; the next start tries again. Oldest first. */
  readonly #unsealed: Pick<OpenSegment, 'path' | 'bytes' | 'firstUs'>[] = [];

  constructor(folder: string, endpointId: string, segmentBytes: number, tasks: LogTasks) {
    this.#folder = folder;
    this.#endpointId = endpointId;
    this.#segmentBytes = segmentBytes;
    this.#tasks = tasks;
  }

  /** Finds what an earlier agent left. A file that cannot be read hides no other. */
  async scan(): Promise<void> {
    const names = (await readdir(this.#folder).catch(unlessMissing<string[]>([]))).toSorted();
    for (const name of names) {
      const path = join(this.#folder, name);
      await this.#scanFile(name, path).catch((error: unknown) => this.#tasks.reportDamage(path, messageOf(error)));
    }
  }

  async #scanFile(name: string, path: string): Promise<void> {
    // Drafts are an earlier version's.
    if (isTemporary(name) || name.endsWith('.draft')) await rm(path, { force: true });
    else if (name.endsWith(OPEN)) this.#seal(path, (await stat(path)).size, Number(name.slice(0, -OPEN.length)));
    else if (name.endsWith(`${OPEN}${SEALED}`)) {
      const sealed = await this.#sealedSegment(path);
      // Its bytes stay for a person to look at, and are in nobody's way.
      if (sealed === undefined) await renameDurably(path, `${path}.damaged`);
      else this.#sealed.push(sealed);
    }
  }

  /** Time of the last line of the open segment, µs; 0 without one. */
  get lastUs(): number {
    return this.#open?.lastUs ?? this.#sealed.at(-1)?.index.lastUs ?? 0;
  }

  /** Bytes on disk. */
  get bytes(): number {
    const sealing = [...this.#sealing.values(), ...this.#unsealed].reduce((sum, { bytes }) => sum + bytes, 0);
    return this.#sealed.reduce((sum, { bytes }) => sum + bytes, sealing + (this.#open?.bytes ?? 0));
  }

  /** Time of the oldest line, µs; undefined without lines. */
  get oldestUs(): number | undefined {
    return this.#sealed[0]?.index.firstUs ?? this.#open?.firstUs;
  }

  /** All files, in the order of time. */
  files(): SegmentFile[] {
    const sealed = this.#sealed.map(({ path, index }) => ({ path, index, at: index.firstUs }));
    const unsealed = [...[...this.#sealing].map(([path, { firstUs }]) => ({ path, firstUs })), ...this.#unsealed];
    const sealing = unsealed.map(({ path, firstUs }) => ({ path, index: undefined, at: firstUs }));
    const open = this.#open === undefined ? [] : [{ path: this.#open.path, index: undefined, at: this.#open.firstUs }];
    return [...sealed, ...sealing, ...open].toSorted((a, b) => a.at - b.at).map(({ path, index }) => ({ path, index }));
  }

  /** Appends encoded lines, whose times are from `firstUs` to `lastUs`. */
  async append(text: string, firstUs: number, lastUs: number): Promise<void> {
    // A clock that was set back: each segment is in the order of time.
    if (this.#open !== undefined && (this.#open.bytes >= this.#segmentBytes || firstUs < this.#open.lastUs)) this.rotate();
    const open = this.#open ?? (await this.#create(firstUs));
    await appendFile(open.path, text, { mode: 0o600 });
    open.bytes += Buffer.byteLength(text);
    open.lastUs = lastUs;
  }

  /** Closes the open segment; it is compressed in the log thread. */
  rotate(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    this.#seal(open.path, open.bytes, open.firstUs);
  }

  /** Removes the oldest segment. Returns the bytes that are free now; 0 when only the open one is left. */
  async removeOldest(): Promise<number> {
    const oldest = this.#sealed.shift();
    if (oldest === undefined) return this.#removeUnsealed();
    await unlink(oldest.path).catch(unlessMissing(undefined));
    await unlink(indexPath(oldest.path)).catch(unlessMissing(undefined));
    return oldest.bytes;
  }

  async #removeUnsealed(): Promise<number> {
    const oldest = this.#unsealed.shift();
    if (oldest === undefined) return 0;
    await unlink(oldest.path).catch(unlessMissing(undefined));
    return oldest.bytes;
  }

  /** Resolves when no segment is being compressed. Failures were reported to `onError` of the tasks. */
  async settled(): Promise<void> {
    while (this.#sealing.size > 0) await Promise.all([...this.#sealing.values()].map(({ done }) => done));
  }

  async #create(firstUs: number): Promise<OpenSegment> {
    await makeFolder(this.#folder, 0o700);
    const path = join(this.#folder, `${String(firstUs).padStart(NAME_DIGITS, '0')}${OPEN}`);
    this.#open = { path, firstUs, bytes: 0, lastUs: firstUs };
    return this.#open;
  }

  #seal(path: string, bytes: number, firstUs: number): void {
    const done = this.#tasks.seal({ path, endpointId: this.#endpointId }).then((sealed) => {
      this.#sealing.delete(path);
      if (sealed === 'failed') this.#unsealed.push({ path, bytes, firstUs });
      if (sealed === undefined || sealed === 'failed') return;
      this.#sealed.push({ path: `${path}${SEALED}`, ...sealed });
      this.#sealed.sort((a, b) => a.index.firstUs - b.index.firstUs);
    });
    this.#sealing.set(path, { done, bytes, firstUs });
  }

  /** Returns undefined for a segment that cannot be read. */
  async #sealedSegment(path: string): Promise<SealedSegment | undefined> {
    const { size } = await stat(path);
    const text = await readFile(indexPath(path), 'utf8').catch(unlessMissing(''));
    const index = parseIndex(text) ?? (await this.#tasks.index({ path, endpointId: this.#endpointId }));
    return index === undefined ? undefined : { path, index, bytes: size };
  }
}

function indexPath(sealed: string): string {
  return `${sealed.slice(0, -SEALED.length)}.index`;
}

export function unlessMissing<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isErrno(error, 'ENOENT')) return value;
    throw error;
  };
}
