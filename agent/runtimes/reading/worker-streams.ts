/**
 * The sources of one worker in the agent. Those of a worker with an account are handed to the reader of the account; without
 * one (a spare, which runs nothing of a tenant; the development server) they are read here.
 */
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';

import { messageOf } from '../../../lib/to-error.ts';
import type { AccountReading, ReadListener, RemoteReading } from '../account-reading.ts';
import { freeBuffer } from '../../../lib/free-buffer.ts';
import { isPassable, stopReading } from './unread-socket.ts';
import { WorkerReader } from './worker-reader.ts';
import type { SourceRole } from '../worker-records.ts';

/** A channel in the middle of a refused frame is passed later, ms. */
const RETRY_MS = 50;

interface Source {
  readonly readable: Readable;
  /** It is read here. */
  isLocal: boolean;
  canHandOver: boolean;
  readonly ended: PromiseWithResolvers<void>;
}

export interface ReadOptions {
  readonly until?: Promise<void>;
  readonly stays?: boolean;
}

export class WorkerStreams {
  readonly #listener: ReadListener;
  readonly #local: WorkerReader;
  readonly #sources = new Map<SourceRole, Source>();
  #reading: AccountReading | undefined;
  #remote: RemoteReading | undefined;
  #isFinished = false;

  constructor(listener: ReadListener, reading?: AccountReading) {
    this.#listener = listener;
    this.#local = new WorkerReader({ ...listener, ended: (role) => this.#ended(role) });
    this.within(reading);
  }

  /** From now on the worker's bytes are its account's. */
  within(reading: AccountReading | undefined): void {
    if (reading === undefined || this.#reading !== undefined) return;
    this.#reading = reading;
    const ended = (role: SourceRole): void => this.#ended(role);
    const lost = (why: string): void => this.#lose(why);
    try {
      this.#remote = reading.attach({ ...this.#listener, ended, lost });
    } catch (error) {
      // Kernel errors that Node throws synchronously: no memory, too many processes.
      process.nextTick(lost, `starting the process that reads the worker failed: ${messageOf(error)}`);
      return;
    }
    for (const [role, source] of this.#sources)
      if (source.canHandOver) this.#pass(role, source);
      else reading.share.add(source.readable);
  }

  /** Reads a source to its end. `until`: here before it resolves. `stays`: here for ever. */
  read(role: SourceRole, readable: Readable, { until, stays = false }: ReadOptions = {}): void {
    const source: Source = { readable, isLocal: true, canHandOver: until === undefined && !stays, ended: Promise.withResolvers() };
    this.#sources.set(role, source);
    readable.on('error', () => undefined);
    readable.once('close', () => {
      this.#reading?.share.delete(readable);
      if (source.isLocal) this.#local.end(role);
      else this.#remote?.end(role);
    });
    readable.on('data', (data: Buffer) => {
      const push = (): void => this.#local.push(role, data);
      if (this.#reading === undefined) push();
      else this.#reading.share.handle(push);
      if (readable instanceof Socket) freeBuffer(data);
    });
    if (source.canHandOver) this.#pass(role, source);
    else {
      this.#reading?.share.add(readable);
      void until?.then(() => {
        source.canHandOver = true;
        this.#pass(role, source);
      });
    }
  }

  /** Resolves when these sources, as far as there are such, are read to their ends. */
  async ended(...roles: readonly SourceRole[]): Promise<void> {
    await Promise.all(roles.map((role) => this.#sources.get(role)?.ended.promise ?? Promise.resolve()));
  }

  /** Resolves when what the worker has written until now was read. */
  async catchUp(): Promise<void> {
    await this.#remote?.catchUp();
  }

  /** Its processes are gone: what is left is read, whatever its account holds. */
  finish(): void {
    this.#isFinished = true;
    for (const { readable, isLocal } of this.#sources.values()) {
      if (!isLocal) continue;
      this.#reading?.share.delete(readable);
      readable.resume();
    }
    this.#remote?.finish();
    this.#forgetIfOver();
  }

  /** Reads nothing more of its channel. */
  stop(): void {
    this.#local.stop();
    this.#remote?.stop();
    this.#sources.get('channel')?.readable.destroy();
  }

  #pass(role: SourceRole, source: Source): void {
    const { readable } = source;
    const remote = this.#remote;
    if (remote === undefined || !source.isLocal || readable.destroyed) return;
    if (isPassable(readable)) {
      remote.pass(role, () => {
        if (!isPassable(readable)) return undefined;
        if (role !== 'channel' || this.#local.isPassable) return this.#stopLocal(role, source, readable, remote);
        setTimeout(() => this.#pass(role, source), RETRY_MS).unref();
        return undefined;
      });
      return;
    }
    this.#leave(source);
    readable.removeAllListeners('data');
    readable.on('data', (bytes: Buffer) => {
      readable.pause();
      remote.push(role, bytes, () => readable.resume());
    });
  }

  /** Ends the reading of a socket here; the reader goes on where it ended. */
  #stopLocal(role: SourceRole, source: Source, socket: Socket, remote: RemoteReading): Socket {
    this.#leave(source);
    const unread = stopReading(socket);
    const begun = role === 'channel' ? this.#local.takeKept() : undefined;
    this.#local.flush(role);
    if (begun !== undefined && begun.length > 0) remote.push(role, begun);
    if (unread !== undefined) remote.push(role, unread);
    return socket;
  }

  #leave(source: Source): void {
    source.isLocal = false;
    this.#reading?.share.delete(source.readable);
  }

  #ended(role: SourceRole): void {
    const source = this.#sources.get(role);
    if (source === undefined) return;
    this.#listener.ended(role);
    source.ended.resolve();
    this.#sources.delete(role);
    source.readable.destroy();
    this.#forgetIfOver();
  }

  #forgetIfOver(): void {
    if (this.#isFinished && this.#sources.size === 0) this.#remote?.forget();
  }

  #lose(why: string): void {
    this.#listener.lost(why);
    for (const [role, { isLocal }] of this.#sources) if (!isLocal) this.#ended(role);
  }
}
