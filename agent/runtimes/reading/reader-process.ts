/** The reader of an account as the agent sees it: a process that is handed the sources of workers and sends records. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { Socket } from 'node:net';

import { messageOf } from '../../../lib/to-error.ts';
import { FrameReader } from '../frames.ts';
import { afterGrace } from '../grace.ts';
import { READER } from '../bootstrap.ts';
import { checkHostFrame } from '../host-frames.ts';
import { LEASH_FD, withLeash } from '../leash.ts';
import { killGroup } from '../process-group.ts';
import type { ReadingShare } from '../reading-shares.ts';
import type { ReadListener, RemoteReading } from '../account-reading.ts';
import { checkRecord, limitsOfReader, RECORDS_FD, type FromReader, type ToReader } from './reader-protocol.ts';
import { RecordSource } from './record-source.ts';
import type { SourceRole } from '../worker-records.ts';

/** Bounds its heap; frames are outside of it and have a bound of their own (assembly.ts). */
const HEAP_MIB = 64;
/**
 * Several threads that collect its garbage keep 3 MiB more under load, and the compiler Maglev 4 MiB; neither gains it time. A signal
 * opens no debugger, and needs no thread.
 */
const NODE_ARGS = [
  ...['--max-semi-space-size=1', `--max-old-space-size=${HEAP_MIB}`, '--v8-pool-size=0'],
  ...['--single-threaded-gc', '--expose-gc', '--no-maglev', '--disable-sigusr1'],
];
/**
 * A large frame is its own mapping, also the second one: it leaves the process when it is freed. Its threads share their heap, which
 * grows by what is needed and shrinks when 64 KiB are free.
 */
const MALLOC = { MALLOC_MMAP_THRESHOLD_: '262144', MALLOC_ARENA_MAX: '1', MALLOC_TOP_PAD_: '0', MALLOC_TRIM_THRESHOLD_: '65536' };
/** Interval of the pings of a reader that has workers, ms. */
const PING_MS = 2_000;
/** A reader that does not answer within this time is ended, ms. */
export const STALL_MS = 10_000;

export interface ReaderStart {
  /** Folder of the staged bootstrap (bootstrap.ts). */
  readonly bootstrap: string;
  readonly stallMs?: number;
}

export class ReaderProcess {
  readonly #child: ChildProcess;
  readonly #link: Socket | undefined;
  readonly #stallMs: number;
  readonly #workers = new Map<number, ReadListener>();
  /** Who waits until what a worker has written is read, by worker, in order. */
  readonly #catchUps = new Map<number, (() => void)[]>();
  readonly #records: RecordSource | undefined;
  /** Sockets that wait to be handed over; each returns whether it was. */
  readonly #passes: (() => boolean)[] = [];
  #isPassing = false;
  #next = 1;
  #pings: NodeJS.Timeout | undefined;
  #cancelStall: (() => void) | undefined;
  #why: string | undefined;
  #isGone = false;
  /** Resolves when the process is gone. */
  readonly exited: Promise<void>;

  /** Throws what the kernel refuses at once. */
  constructor({ bootstrap, stallMs = STALL_MS }: ReaderStart) {
    this.#stallMs = stallMs;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    const [shell, line] = withLeash(process.execPath, [...NODE_ARGS, join(bootstrap, READER)]);
    this.#child = spawn(shell, line, {
      // Signals of a terminal end the agent, which then ends its workers in order.
      detached: true,
      cwd: '/',
      env: MALLOC,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'ipc', 'pipe'],
      serialization: 'advanced',
    });
    this.#child.once('error', (error) => this.#lose(`it could not be started: ${error.message}`));
    const streams = this.#child.stdio as readonly (Socket | null | undefined)[];
    const leash = streams[LEASH_FD] ?? undefined;
    leash?.on('error', () => undefined);
    this.#child.once('exit', (code, signal) => {
      leash?.destroy();
      this.#lose(signal === null ? `it exited with code ${code ?? 'unknown'}` : `it was killed by ${signal}`);
      resolve();
    });
    if (this.#child.pid === undefined) resolve();
    // Its channel breaks when it ends, which its exit reports.
    this.#child.on('disconnect', () => undefined);
    this.#child.channel?.unref();
    this.#child.unref();
    leash?.unref();
    this.#link = streams[RECORDS_FD] ?? undefined;
    // It keeps this process alive for its workers only.
    this.#link?.unref();
    const frames = new FrameReader<unknown>({
      onFrame: (header, body) => this.#receive(checkRecord(header), body),
      limits: limitsOfReader,
      accepts: (header) => this.#accepts(checkRecord(header)),
    });
    this.#link?.on('error', () => undefined);
    const push = (data: Buffer): void => {
      try {
        frames.push(data);
      } catch (error) {
        frames.stop();
        this.kill(`it sent ${messageOf(error)}`);
      }
    };
    this.#records = this.#link && new RecordSource(this.#link, push, (is) => this.#send({ t: 'hold', is }));
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Number of workers that it reads. */
  get size(): number {
    return this.#workers.size;
  }

  /** Its records count for an account from now on. */
  within(share: ReadingShare): void {
    this.#records?.within(share);
  }

  /** Returns what hands the sources of one more worker to it. */
  attach(listener: ReadListener): RemoteReading {
    const w = this.#next++;
    this.#workers.set(w, listener);
    this.#link?.ref();
    if (this.#isGone) process.nextTick(() => this.#loseWorker(w));
    else this.#pings ??= setInterval(() => this.#ping(), PING_MS).unref();
    return new RemoteWorker(w, (message, sent) => this.#send(message, undefined, sent), {
      pass: (role, stop) => this.#pass({ t: 'source', w, role }, stop),
      catchUp: () => this.#catchUp(w),
      detach: () => this.#detach(w),
    });
  }

  /** Ends it; `why` becomes the detail of its end. */
  kill(why: string): void {
    this.#why ??= why;
    if (!this.#isGone && this.#child.pid !== undefined) killGroup(this.#child.pid);
  }

  #catchUp(w: number): Promise<void> {
    if (this.#isGone || !this.#workers.has(w)) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#catchUps.set(w, [...(this.#catchUps.get(w) ?? []), resolve]);
    this.#send({ t: 'catch-up', w });
    return promise;
  }

  #endCatchUps(w: number): void {
    for (const resolve of this.#catchUps.get(w) ?? []) resolve();
    this.#catchUps.delete(w);
  }

  #detach(w: number): void {
    this.#endCatchUps(w);
    if (!this.#workers.delete(w)) return;
    this.#send({ t: 'forget', w });
    if (this.#workers.size > 0) return;
    this.#link?.unref();
    this.#endPings();
  }

  #endPings(): void {
    clearInterval(this.#pings);
    this.#pings = undefined;
    this.#cancelStall?.();
    this.#cancelStall = undefined;
  }

  #ping(): void {
    if (this.#cancelStall !== undefined || this.#isGone) return;
    this.#send({ t: 'ping' });
    this.#cancelStall = afterGrace(this.#stallMs, () => this.kill(`it did not respond for ${this.#stallMs / 1000} s`), this.#child.pid);
  }

  #pass(message: ToReader, stop: () => Socket | undefined): void {
    this.#passes.push(() => {
      const socket = stop();
      if (socket !== undefined) this.#send(message, socket);
      return socket !== undefined;
    });
    this.#passNext();
  }

  #passNext(): void {
    while (!this.#isPassing && !this.#isGone) {
      const next = this.#passes.shift();
      if (next === undefined) return;
      this.#isPassing = next();
    }
  }

  #send(message: ToReader, socket?: Socket, sent?: () => void): void {
    if (this.#isGone || !this.#child.connected) {
      sent?.();
      return;
    }
    // An error means that it ends: its exit reports that.
    this.#child.send(message, socket, { keepOpen: true }, () => sent?.());
  }

  #accepts(record: FromReader): boolean {
    if (record.t !== 'frame') return true;
    return this.#workers.get(record.w)?.accepts?.(checkHostFrame(record.h)) ?? false;
  }

  #receive(record: FromReader, body: Buffer): void {
    if (record.t === 'pong') {
      this.#cancelStall?.();
      this.#cancelStall = undefined;
      return;
    }
    if (record.t === 'passed') {
      this.#isPassing = false;
      this.#passNext();
      return;
    }
    // Late records of a worker that is gone have no listener.
    const listener = this.#workers.get(record.w);
    switch (record.t) {
      case 'frame':
        listener?.frame(checkHostFrame(record.h, body), body, '');
        break;
      case 'lines':
        listener?.lines(record.stream, body.toString());
        break;
      case 'caught-up':
        this.#catchUps.get(record.w)?.shift()?.();
        break;
      case 'violation':
        listener?.violation(record.text);
        break;
      case 'ended':
        listener?.ended(record.role);
    }
  }

  #lose(how: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#why ??= how;
    this.#endPings();
    this.#records?.end();
    for (const w of [...this.#workers.keys()]) this.#loseWorker(w);
  }

  #loseWorker(w: number): void {
    const listener = this.#workers.get(w);
    this.#workers.delete(w);
    this.#endCatchUps(w);
    listener?.lost(`the process that reads the output of this account's workers ended: ${this.#why ?? ''}`);
  }
}

interface RemoteCalls extends Pick<RemoteReading, 'pass' | 'catchUp'> {
  readonly detach: () => void;
}

type SendMessage = (message: ToReader, sent?: () => void) => void;

class RemoteWorker implements RemoteReading {
  readonly #w: number;
  readonly #send: SendMessage;
  readonly #detach: () => void;
  readonly pass: RemoteReading['pass'];
  readonly catchUp: RemoteReading['catchUp'];

  constructor(w: number, send: SendMessage, { pass, catchUp, detach }: RemoteCalls) {
    this.#w = w;
    this.#send = send;
    this.pass = pass;
    this.catchUp = catchUp;
    this.#detach = detach;
  }

  push(role: SourceRole, bytes: Buffer, sent?: () => void): void {
    this.#send({ t: 'bytes', w: this.#w, role, bytes }, sent);
  }

  end(role: SourceRole): void {
    this.#send({ t: 'end', w: this.#w, role });
  }

  finish(): void {
    this.#send({ t: 'finish', w: this.#w });
  }

  stop(): void {
    this.#send({ t: 'stop', w: this.#w });
  }

  forget(): void {
    this.#detach();
  }
}
