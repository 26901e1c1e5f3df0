/**
 * What of a folder survives a power cut on the strictest file system that POSIX allows: the bytes of a file that were
 * written before a sync of it, and the names that a folder had before a sync of it. Nothing else: a synced file whose
 * name was never synced is lost, a renamed file has its former name until the folder is synced.
 */
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import type { DiskEvent } from './events.ts';

/** A change that is not synced yet, and the position of its record. */
interface Unsynced<T> {
  readonly at: number;
  readonly change: T;
}

type Bytes = { readonly offset: number; readonly bytes: Buffer } | { readonly size: number };
interface Naming {
  readonly name: string;
  /** Undefined: the name is removed. */
  readonly node: Node | undefined;
}

interface FileNode {
  readonly kind: 'file';
  /** The bytes that are synced. */
  readonly synced: Content;
  readonly unsynced: Unsynced<Bytes>[];
  /** Length with everything that is not synced. */
  size: number;
}

interface FolderNode {
  readonly kind: 'folder';
  /** With every change. */
  readonly names: Map<string, Node>;
  /** With the synced changes. */
  readonly synced: Map<string, Node>;
  readonly unsynced: Unsynced<Naming>[];
}

type Node = FileNode | FolderNode;

/** A file or folder at the beginning of a recording. */
export interface Present {
  /** Absolute. */
  readonly path: string;
  readonly inode: bigint;
  /** Null for a folder. */
  readonly bytes: Buffer | null;
}

/** Reads a folder, itself included, folders before what is in them. */
export async function presentIn(root: string): Promise<Present[]> {
  const found: Present[] = [{ path: root, inode: (await stat(root, { bigint: true })).ino, bytes: null }];
  for (const entry of await readdir(root, { withFileTypes: true })) {
    const path = join(root, entry.name);
    if (entry.isDirectory()) found.push(...(await presentIn(path)));
    else if (entry.isFile()) found.push({ path, inode: (await stat(path, { bigint: true })).ino, bytes: await readFile(path) });
  }
  return found;
}

export class DiskModel {
  readonly #root: string;
  readonly #top: FolderNode = folderNode();
  readonly #inodes = new Map<bigint, Node>();

  /** @param present the root and everything in it, all of it synced. */
  constructor(root: string, present: readonly Present[]) {
    this.#root = root;
    for (const { path, inode, bytes } of present) {
      const node = path === root ? this.#top : bytes === null ? folderNode() : fileNode(bytes);
      this.#inodes.set(inode, node);
      const folder = path === root ? undefined : this.#find(dirname(path));
      if (folder?.kind !== 'folder') continue;
      folder.names.set(basename(path), node);
      folder.synced.set(basename(path), node);
    }
  }

  apply(event: DiskEvent): void {
    switch (event.kind) {
      case 'opened': {
        const known = this.#find(event.path);
        const file = known !== undefined && known === this.#inodes.get(event.inode) ? known : fileNode(Buffer.alloc(0));
        this.#inodes.set(event.inode, file);
        if (file !== known) this.#name(event.path, file, event.at);
        if (event.truncates && file.kind === 'file') change(file, { size: 0 }, event.at);
        return;
      }
      case 'written':
        return change(this.#file(event.inode), { offset: event.offset, bytes: event.bytes }, event.at);
      case 'truncated':
        return change(this.#file(event.inode), { size: event.size }, event.at);
      case 'synced':
        return this.#sync(event);
      case 'folder': {
        const folder = folderNode();
        this.#inodes.set(event.inode, folder);
        return this.#name(event.path, folder, event.at);
      }
      case 'renamed': {
        const node = this.#find(event.from);
        this.#name(event.from, undefined, event.at);
        return this.#name(event.to, node, event.at);
      }
      case 'linked':
        return this.#name(event.to, this.#find(event.from), event.at);
      case 'removed':
        return this.#name(event.path, undefined, event.at);
    }
  }

  /** Path below the root → bytes of every file that survives; null for a folder. */
  survivors(): Map<string, Buffer | null> {
    const found = new Map<string, Buffer | null>();
    const walk = (folder: FolderNode, path: string): void => {
      for (const [name, node] of folder.synced) {
        const inside = join(path, name);
        found.set(inside, node.kind === 'file' ? node.synced.read() : null);
        if (node.kind === 'folder') walk(node, inside);
      }
    };
    walk(this.#top, '');
    return found;
  }

  #sync({ inode, before, size }: Extract<DiskEvent, { kind: 'synced' }>): void {
    const node = this.#inodes.get(inode);
    if (node === undefined) throw new Error(`a sync of inode ${inode}, which no record names`);
    if (node.kind === 'folder') {
      for (const {
        change: { name, node: named },
      } of takeBefore(node.unsynced, before)) {
        if (named === undefined) node.synced.delete(name);
        else node.synced.set(name, named);
      }
      return;
    }
    if (size !== null && size > node.size)
      throw new Error(`a file of ${size} bytes was synced, of which ${node.size} were recorded: it was written in an unrecorded way`);
    for (const { change: each } of takeBefore(node.unsynced, before)) node.synced.change(each);
  }

  #file(inode: bigint): FileNode {
    const node = this.#inodes.get(inode);
    if (node?.kind !== 'file') throw new Error(`a write to inode ${inode}, which no record names`);
    return node;
  }

  #name(path: string, node: Node | undefined, at: number): void {
    const folder = this.#find(dirname(path));
    if (folder?.kind !== 'folder') throw new Error(`${path}: its folder was created in an unrecorded way`);
    const name = basename(path);
    if (node === undefined) folder.names.delete(name);
    else folder.names.set(name, node);
    folder.unsynced.push({ at, change: { name, node } });
  }

  #find(path: string): Node | undefined {
    let node: Node | undefined = this.#top;
    for (const name of relative(this.#root, path).split('/')) {
      if (name === '') continue;
      node = node?.kind === 'folder' ? node.names.get(name) : undefined;
    }
    return node;
  }
}

/** Writes what survived into an empty folder. */
export async function writeSurvivors(survivors: ReadonlyMap<string, Buffer | null>, folder: string): Promise<void> {
  for (const [path, bytes] of survivors) {
    if (bytes === null) await mkdir(join(folder, path), { mode: 0o700 });
    else await writeFile(join(folder, path), bytes, { mode: 0o600 });
  }
}

function folderNode(): FolderNode {
  return { kind: 'folder', names: new Map(), synced: new Map(), unsynced: [] };
}

function fileNode(bytes: Buffer): FileNode {
  return { kind: 'file', synced: new Content(bytes), unsynced: [], size: bytes.length };
}

function change(file: FileNode, each: Bytes, at: number): void {
  file.unsynced.push({ at, change: each });
  file.size = 'size' in each ? each.size : Math.max(file.size, each.offset + each.bytes.length);
}

/** Bytes that grow at their end without being copied each time. */
class Content {
  #buffer: Buffer;
  #length: number;

  constructor(bytes: Buffer) {
    this.#buffer = Buffer.from(bytes);
    this.#length = bytes.length;
  }

  read(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  change(each: Bytes): void {
    const end = 'size' in each ? each.size : Math.max(this.#length, each.offset + each.bytes.length);
    if (end > this.#buffer.length)
      this.#buffer = Buffer.concat([this.#buffer, Buffer.alloc(Math.max(end, 2 * this.#buffer.length) - this.#buffer.length)]);
    // What a file had beyond its end does not come back when it grows.
    if (end < this.#length) this.#buffer.fill(0, end, this.#length);
    this.#length = end;
    if ('bytes' in each) each.bytes.copy(this.#buffer, each.offset);
  }
}

/** Takes the changes that were recorded before a position out of the list. */
function takeBefore<T>(list: Unsynced<T>[], position: number): Unsynced<T>[] {
  const end = list.findIndex(({ at }) => at >= position);
  return list.splice(0, end === -1 ? list.length : end);
}
