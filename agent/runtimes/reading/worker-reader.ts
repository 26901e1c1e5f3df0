/**
 * Makes records of the bytes of one worker: splits, limits, parses and validates them. It runs in the agent for workers
 * without an account (spares, the development server), and in the reader of an account for all others.
 */
import { messageOf } from '../../../lib/to-error.ts';
import { OutputFrames } from './output-frames.ts';
import { FrameReader } from '../frames.ts';
import { checkHostFrame, limitsOfHost, MAX_KEY } from '../host-frames.ts';
import type { FromHost } from '../host-protocol.ts';
import { LineSplitter } from '../lines.ts';
import { LINE_COST, OUTPUT_BURST, OUTPUT_PER_SECOND, OutputLimiter } from '../output-limiter.ts';
import type { OutputBudget } from '../output-budget.ts';
import { WorkerOutput } from '../worker-output.ts';
import type { SourceRole, WorkerRecords } from '../worker-records.ts';

/**
 * Of the lines that a host sends on its channel. Our hosts keep to less themselves (OutputLimiter), so that only code which
 * writes to the channel itself meets this limit.
 */
const LINES_BUDGET = { burst: 1.25 * OUTPUT_BURST, perSecond: 1.25 * OUTPUT_PER_SECOND, perPiece: LINE_COST };

/** The kinds of frames that end a task: the lines before it are its own. */
const ENDS: ReadonlySet<FromHost['t']> = new Set(['returned', 'failed', 'stopped', 'reloading', 'died']);

export class WorkerReader {
  readonly #records: WorkerRecords;
  readonly #frames: FrameReader<unknown>;
  readonly #entries: LineSplitter;
  readonly #report: LineSplitter;
  readonly #output: WorkerOutput;
  readonly #engine: OutputFrames;
  readonly #lines: OutputLimiter;
  #isStopped = false;

  /** `shared`: what the account's workers may print together. */
  constructor(records: WorkerRecords, shared?: OutputBudget) {
    this.#records = records;
    this.#frames = new FrameReader({
      onFrame: (header, body, text) => this.#onFrame(checkHostFrame(header, body), body, text),
      limits: limitsOfHost,
      accepts: (header) => records.accepts?.(checkHostFrame(header)) ?? true,
    });
    this.#entries = new LineSplitter((line) => this.#onEntry(line));
    this.#report = new LineSplitter((line) => records.report(line));
    this.#output = new WorkerOutput((stream, text) => records.lines(stream, text), shared);
    this.#engine = new OutputFrames((stream, piece) => this.#output.push(stream, piece));
    this.#lines = new OutputLimiter((stream, jobId, text) => this.#sendLog(stream, jobId, text), undefined, {
      ...LINES_BUDGET,
      ...(shared === undefined ? {} : { shared }),
    });
  }

  /** Bytes of an unfinished frame. */
  get kept(): number {
    return this.#frames.kept;
  }

  push(role: SourceRole, data: Buffer): void {
    switch (role) {
      case 'channel':
        try {
          this.#frames.push(data);
        } catch (error) {
          this.refuse(messageOf(error));
        }
        break;
      case 'entries':
        this.#entries.push(data);
        break;
      case 'report':
        this.#report.push(data);
        break;
      case 'engine':
        this.#engine.push(data);
        break;
      case 'stdout':
      case 'stderr':
        this.#output.push(role, data);
    }
  }

  /** A source has ended. */
  end(role: SourceRole): void {
    if (role === 'channel') this.#lines.flush();
    if (role === 'stdout' || role === 'stderr') this.#output.end(role);
    if (role === 'engine') for (const stream of ['stdout', 'stderr'] as const) this.#output.end(stream);
    this.#records.ended(role);
  }

  /** Whether another reader can go on with its channel here. */
  get isPassable(): boolean {
    return !this.#frames.isSkipping;
  }

  /** Another reader goes on with its channel: returns the bytes of its unfinished frame. */
  takeKept(): Buffer {
    return this.#frames.takeKept();
  }

  /** Another reader goes on with a source of lines: ends the unfinished one. */
  flush(role: SourceRole): void {
    if (role === 'stdout' || role === 'stderr') this.#output.end(role);
  }

  /** Reads nothing more of its channel. */
  refuse(why: string): void {
    if (this.#isStopped) return;
    this.stop();
    this.#records.violation(why);
  }

  /** Drops what follows on its channel, also the rest of the bytes that are being split. */
  stop(): void {
    this.#isStopped = true;
    this.#frames.stop();
    this.#entries.stop();
  }

  #onFrame(frame: FromHost, body: Buffer, text: string): void {
    if (frame.t === 'log') {
      if (frame.text !== '') this.#lines.add(frame.stream, frame.jobId, frame.text);
      return;
    }
    if (ENDS.has(frame.t)) this.#lines.flush();
    this.#records.frame(frame, body, text);
  }

  #onEntry(line: string): void {
    if (line.length > MAX_KEY + 1) this.refuse(`the worker reported the entry of a task with a key of more than ${MAX_KEY} characters`);
    else this.#records.entry(line);
  }

  #sendLog(stream: 'stdout' | 'stderr', jobId: string, text: string): void {
    const bytes = Buffer.from(text);
    this.#records.frame({ t: 'log', stream, jobId, text }, bytes, JSON.stringify({ t: 'log', stream, jobId }));
  }
}
