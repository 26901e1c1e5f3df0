/**
 * Worker output on disk: `<endpoint>.log` for each endpoint, and `.log.1` before it. The files of an account have a
 * quota; beyond it the account's oldest files are removed, so that one account's output takes no space from another's.
 * `accounts.json` stores the account of each endpoint, also for endpoints that no longer run here.
 */
import { appendFile, mkdir, readdir, readFile, rename, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';

const ACCOUNTS = 'accounts.json';
/** Smaller files would rotate with nearly every line. */
const LEAST_FILE_BYTES = 100;

export interface LogQuota {
  /** Quota of the files of an account, bytes. */
  readonly accountBytes: number;
  /** The account of an endpoint; empty when unknown. */
  readonly accountOf: (endpointId: string) => string;
}

interface LogFile {
  bytes: number;
  /** Time of the last write, ms. */
  at: number;
}

export class LogFiles {
  readonly #folder: string;
  readonly #fileBytes: number;
  readonly #quota: LogQuota;
  /** By file name. */
  readonly #files = new Map<string, LogFile>();
  /** By the base name of the endpoint's files. */
  readonly #accounts = new Map<string, string>();
  /** Serializes appends and removals. */
  #turn: Promise<void> | null = null;

  /** A file is rotated at about `fileBytes`. */
  constructor(folder: string, fileBytes: number, quota: LogQuota = { accountBytes: Number.POSITIVE_INFINITY, accountOf: () => '' }) {
    this.#folder = folder;
    // The quota must hold two files of one endpoint.
    this.#fileBytes = Math.max(LEAST_FILE_BYTES, Math.min(fileBytes, Math.floor(quota.accountBytes / 2)));
    this.#quota = quota;
  }

  /** Appends lines to the files of an endpoint, rotates them, and removes files beyond the account's quota. */
  append(endpointId: string, text: string): Promise<void> {
    const before = this.#turn ?? this.#scan();
    const done = before.then(() => this.#append(endpointId, text));
    // The caller reports a failure; the next append is tried regardless.
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Returns the bytes of an account's files. */
  bytesOf(account: string): number {
    return this.#filesOf(account).reduce((sum, [, { bytes }]) => sum + bytes, 0);
  }

  /** Files of an earlier agent count from the start. */
  async #scan(): Promise<void> {
    const names = await readdir(this.#folder).catch(unlessMissing<string[]>([]));
    for (const name of names.filter((each) => /\.log(\.1)?$/.test(each))) {
      const { size, mtimeMs } = await stat(join(this.#folder, name));
      this.#files.set(name, { bytes: size, at: mtimeMs });
    }
    const kept = await readFile(join(this.#folder, ACCOUNTS), 'utf8').catch(unlessMissing('{}'));
    for (const [name, account] of Object.entries(accountsIn(kept))) this.#accounts.set(name, account);
  }

  async #append(endpointId: string, text: string): Promise<void> {
    const name = fileName(endpointId);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await this.#noteAccount(name, this.#quota.accountOf(endpointId));
    for (const piece of pieces(Buffer.from(text), this.#fileBytes)) await this.#appendPiece(`${name}.log`, piece);
    await this.#trim(this.#accounts.get(name) ?? '', `${name}.log`);
  }

  async #appendPiece(file: string, piece: Buffer): Promise<void> {
    const path = join(this.#folder, file);
    let size = await stat(path).then((found) => found.size, unlessMissing(0));
    if (size > 0 && size + piece.length > this.#fileBytes) {
      await rename(path, `${path}.1`);
      this.#files.set(`${file}.1`, { bytes: size, at: this.#files.get(file)?.at ?? Date.now() });
      size = 0;
    }
    await appendFile(path, piece, { mode: 0o600 });
    this.#files.set(file, { bytes: size + piece.length, at: Date.now() });
  }

  /** Removes the files of an account written longest ago until the rest fits; keeps `present`. */
  async #trim(account: string, present: string): Promise<void> {
    let bytes = this.bytesOf(account);
    if (bytes <= this.#quota.accountBytes) return;
    const oldest = this.#filesOf(account)
      .filter(([name]) => name !== present)
      .toSorted(([, a], [, b]) => a.at - b.at);
    for (const [name, file] of oldest) {
      if (bytes <= this.#quota.accountBytes) return;
      await unlink(join(this.#folder, name)).catch(unlessMissing(undefined));
      this.#files.delete(name);
      bytes -= file.bytes;
    }
  }

  #filesOf(account: string): [string, LogFile][] {
    return [...this.#files].filter(([name]) => (this.#accounts.get(name.replace(/\.log(\.1)?$/, '')) ?? '') === account);
  }

  async #noteAccount(name: string, account: string): Promise<void> {
    if (account === '' || this.#accounts.get(name) === account) return;
    this.#accounts.set(name, account);
    // Endpoints without files are dropped from the list.
    for (const known of this.#accounts.keys())
      if (known !== name && !this.#files.has(`${known}.log`) && !this.#files.has(`${known}.log.1`)) this.#accounts.delete(known);
    await writeFile(join(this.#folder, ACCOUNTS), JSON.stringify(Object.fromEntries(this.#accounts)), { mode: 0o600 });
  }
}

/** Splits the last `2 * most` bytes of a text into pieces, which end at a line end where possible. */
function* pieces(text: Buffer, most: number): Generator<Buffer> {
  let start = Math.max(0, text.length - 2 * most);
  while (start < text.length) {
    let end = Math.min(text.length, start + most);
    const line = end < text.length ? text.lastIndexOf(0x0a, end - 1) + 1 : end;
    if (line > start) end = line;
    yield text.subarray(start, end);
    start = end;
  }
}

/** A file truncated by a full disk is ignored: its endpoints are recorded again when they print. */
function accountsIn(text: string): Record<string, string> {
  try {
    const kept: unknown = JSON.parse(text);
    if (typeof kept !== 'object' || kept === null) return {};
    return Object.fromEntries(Object.entries(kept).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

function unlessMissing<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isErrno(error, 'ENOENT')) return value;
    throw error;
  };
}

/** Endpoint ids have a plain form; any other string must not become a path. */
function fileName(endpointId: string): string {
  return endpointId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 100) || 'none';
}
