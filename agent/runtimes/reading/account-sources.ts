/** The sources of an account's workers, in its reader: read while the agent takes what is read. */
import type { Socket } from 'node:net';

import { FrameWriter } from '../frames.ts';
import { OutputBudget } from '../output-budget.ts';
import { OUTPUT_BURST, OUTPUT_PER_SECOND } from '../output-limiter.ts';
import { ReadingShares, WINDOW_MS, type PausableSource } from '../reading-shares.ts';
import { freeBuffer } from '../../../lib/free-buffer.ts';
import type { FromReader, ToReader } from './reader-protocol.ts';
import { WorkerReader } from './worker-reader.ts';
import type { SourceRole } from '../worker-records.ts';

/** What an account's workers may print together: as much as four of them. */
const ACCOUNT_OUTPUT = { burst: 4 * OUTPUT_BURST, perSecond: 4 * OUTPUT_PER_SECOND };
/** Time for reading in each window of 50 ms, ms: the rest is the workers' and their neighbours'. */
const BUSY_MS = 30;
/** A source that is to end has nothing more once nothing came for this time, ms. */
const QUIET_MS = 100;

/** Records that may wait for the agent, bytes. With less, each large frame would wait for the agent's next turn. */
const QUEUED_BYTES = 1024 * 1024;
/** A worker for whose frame those of others wait must send more of it within this time, ms. */
const STALL_MS = 10_000;
/** Memory is collected after bodies of this many bytes. */
const COLLECT_BYTES = 4 * 1024 * 1024;

interface Source extends PausableSource {
  readonly worker: ReadWorker;
  readonly role: SourceRole;
  readonly socket: Socket;
  /** The account's time is used up, or its memory for unfinished frames. */
  isPaused: boolean;
  /** Set once it is to end. */
  quiet: NodeJS.Timeout | undefined;
}

interface ReadWorker {
  readonly reader: WorkerReader;
  readonly sources: Set<Source>;
  isFinishing: boolean;
  /** Ends it if it leaves its frame unfinished. */
  stall: NodeJS.Timeout | undefined;
}

export class AccountSources {
  readonly #link: Socket;
  readonly #writer: FrameWriter;
  readonly #workers = new Map<number, ReadWorker>();
  readonly #output = new OutputBudget(ACCOUNT_OUTPUT);
  readonly #share = new ReadingShares(undefined, BUSY_MS).of('');
  /** The account holds too much in the agent. */
  #isHeld = false;
  /** The agent takes no more records now. */
  #isFull = false;
  /** Bytes of bodies since the last collection. */
  #sentBytes = 0;

  /** `onLost`: the agent reads no more. */
  constructor(link: Socket, onLost: () => void) {
    this.#link = link;
    this.#writer = new FrameWriter(link, process.nextTick);
    link.on('drain', () => {
      this.#isFull = false;
      this.#freeLarge();
      this.#applyAll();
    });
    link.on('error', onLost);
    link.on('close', onLost);
    link.resume();
  }

  receive(message: ToReader, socket: Socket | undefined): void {
    if (message.t === 'ping') this.#send({ t: 'pong' });
    else if (message.t === 'hold') {
      this.#isHeld = message.is;
      this.#applyAll();
    } else this.#receiveOf(message, socket);
  }

  #receiveOf(message: Exclude<ToReader, { t: 'ping' | 'hold' }>, socket: Socket | undefined): void {
    const { t, w } = message;
    switch (t) {
      case 'source':
        this.#send({ t: 'passed' });
        // The worker was gone before its socket arrived.
        if (socket === undefined) this.#send({ t: 'ended', w, role: message.role });
        else this.#read(this.#workerOf(w), message.role, socket);
        break;
      case 'bytes':
        this.#push(this.#workerOf(w), message.role, Buffer.from(message.bytes));
        break;
      case 'end':
        this.#end(this.#workerOf(w), message.role);
        break;
      case 'finish': {
        const worker = this.#workerOf(w);
        worker.isFinishing = true;
        for (const source of worker.sources) this.#apply(source);
        break;
      }
      case 'catch-up':
        // In this time each source has had its share, and after it another look at what has arrived.
        setTimeout(() => setImmediate(() => this.#send({ t: 'caught-up', w })), WINDOW_MS);
        break;
      case 'stop':
        this.#stop(this.#workerOf(w));
        break;
      case 'forget':
        this.#forget(w);
    }
  }

  #workerOf(w: number): ReadWorker {
    let worker = this.#workers.get(w);
    if (worker === undefined) {
      worker = { reader: this.#readerOf(w), sources: new Set(), isFinishing: false, stall: undefined };
      this.#workers.set(w, worker);
    }
    return worker;
  }

  #readerOf(w: number): WorkerReader {
    return new WorkerReader(
      {
        frame: (_frame, body, header) => this.#sendText(`{"t":"frame","w":${w},"h":${header}}`, body),
        // The agent reads these itself.
        entry: () => undefined,
        report: () => undefined,
        lines: (stream, text) => this.#send({ t: 'lines', w, stream }, Buffer.from(text)),
        violation: (text) => this.#send({ t: 'violation', w, text }),
        ended: (role) => this.#send({ t: 'ended', w, role }),
      },
      this.#output,
    );
  }

  #read(worker: ReadWorker, role: SourceRole, socket: Socket): void {
    const pauses = (is: boolean): void => {
      source.isPaused = is;
      this.#apply(source);
    };
    const source: Source = {
      ...{ worker, role, socket, isPaused: false, quiet: undefined },
      pause: () => pauses(true),
      resume: () => pauses(false),
    };
    worker.sources.add(source);
    socket.on('data', (data: Buffer) => {
      source.quiet?.refresh();
      this.#push(worker, role, data);
      if (role === 'channel') this.#keep(source, worker.reader.kept);
      freeBuffer(data);
    });
    // A broken connection ends as a closed one.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(source.quiet);
      worker.sources.delete(source);
      this.#share.delete(source);
      worker.reader.end(role);
    });
    this.#share.add(source);
    this.#apply(source);
  }

  #push(worker: ReadWorker, role: SourceRole, data: Buffer): void {
    this.#share.handle(() => worker.reader.push(role, data));
  }

  #end(worker: ReadWorker, role: SourceRole): void {
    const found = [...worker.sources].find((source) => source.role === role);
    if (found === undefined) worker.reader.end(role);
    else found.quiet ??= setTimeout(() => found.socket.destroy(), QUIET_MS);
  }

  #stop(worker: ReadWorker): void {
    worker.reader.stop();
    for (const { role, socket } of worker.sources) if (role === 'channel') socket.destroy();
  }

  #forget(w: number): void {
    const worker = this.#workers.get(w);
    if (worker === undefined) return;
    this.#workers.delete(w);
    this.#stop(worker);
    clearTimeout(worker.stall);
    for (const { socket } of worker.sources) socket.destroy();
  }

  /** Charges the account for an unfinished frame. */
  #keep(source: Source, bytes: number): void {
    clearTimeout(source.worker.stall);
    source.worker.stall = undefined;
    this.#share.keep(source, bytes);
    this.#watch();
  }

  /** A worker for whose frame others wait must go on with it. */
  #watch(): void {
    const awaited = this.#share.awaited as Source | undefined;
    if (awaited !== undefined) awaited.worker.stall ??= setTimeout(() => this.#refuse(awaited), STALL_MS);
  }

  #refuse(source: Source): void {
    const { worker } = source;
    worker.stall = undefined;
    if (this.#share.awaited !== source) return;
    if (!source.socket.isPaused()) {
      worker.reader.refuse('the worker left a frame unfinished while those of other workers of its account waited for it');
      this.#stop(worker);
    }
    this.#watch();
  }

  #applyAll(): void {
    for (const { sources } of this.#workers.values()) for (const source of sources) this.#apply(source);
  }

  #apply({ socket, isPaused, worker }: Source): void {
    const mayRead = !isPaused && !this.#isFull && (!this.#isHeld || worker.isFinishing);
    if (mayRead === !socket.isPaused()) return;
    if (mayRead) socket.resume();
    else socket.pause();
  }

  /** Node would keep the memory of large frames until the next collection of its small heap, which may be far away. */
  #freeLarge(): void {
    if (this.#sentBytes < COLLECT_BYTES) return;
    this.#sentBytes = 0;
    // The write that has just ended refers to its bytes until it returns.
    setImmediate(() => globalThis.gc?.());
  }

  #send(record: FromReader, body?: Buffer): void {
    this.#sendText(JSON.stringify(record), body);
  }

  #sendText(header: string, body?: Buffer): void {
    this.#writer.sendText(header, body);
    this.#sentBytes += body?.length ?? 0;
    if (this.#isFull || this.#link.writableLength < QUEUED_BYTES) return;
    this.#isFull = true;
    this.#applyAll();
  }
}
