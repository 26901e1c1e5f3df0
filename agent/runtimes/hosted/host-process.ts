/** One host process as the agent sees it: its channel, its output, its exit. It is a spare until a worker takes it. */
import type { Socket } from 'node:net';

import { messageOf } from '../../../lib/to-error.ts';
import type { Assignment, WorkerExit, WorkerLauncher, WorkerPlace, WorkerProcess } from '../../sandbox/launcher.ts';
import { FrameReader, FrameWriter } from '../frames.ts';
import { notRun } from '../leash.ts';
import { LineSplitter } from '../lines.ts';
import { exitText } from '../process-group.ts';
import type { ReadingShare } from '../reading-shares.ts';
import { WorkerOutput } from '../worker-output.ts';
import { WorkerStreams } from '../worker-streams.ts';
import { checkHostFrame, limitsOfHost } from './host-frames.ts';
import { BufferedListener, tellEntry, type HostListener } from './host-listener.ts';
import type { Host } from './host.ts';
import type { HostProgram } from './host-program.ts';
import { CHANNEL_FD, ENTRY_FD, type FromHost, type ProcessScope, type ToHost } from './protocol.ts';

const PROCESS_SCOPES = { none: 'marked', user: 'user', sandbox: 'own' } as const satisfies Readonly<
  Record<WorkerLauncher['level'], ProcessScope>
>;
/** CHANNEL_FD and ENTRY_FD. */
const PIPES = 2;
const FIRST_PIPE = 3;

export interface HostStart {
  readonly launcher: WorkerLauncher;
  readonly program: HostProgram;
  readonly env: Readonly<Record<string, string>>;
  /** Absent for a spare. */
  readonly assignment?: Assignment;
}

export class HostProcess implements Host {
  readonly #process: WorkerProcess;
  readonly #launcher: WorkerLauncher;
  readonly #program: HostProgram;
  #channel: FrameWriter | undefined;
  #entries: Socket | undefined;
  readonly #streams = new WorkerStreams();
  readonly #hearing = new BufferedListener();
  readonly #entered = new LineSplitter((line) => this.#hearing.tell((listener) => tellEntry(listener, line)));
  /** Where its worker sees its folders, once it has one. */
  #place: WorkerPlace | undefined;
  /** Frames for a worker whose build is not visible to it yet; undefined while frames are sent at once. */
  #waiting: (readonly [frame: ToHost, body: Uint8Array | undefined])[] | undefined;
  #isRefused = false;
  #stopReading: () => void = () => undefined;
  /** The process has reported. */
  up = false;
  /** The process is gone, or could not be started. */
  gone = false;
  readonly exited: Promise<void>;

  constructor({ launcher, program, env, assignment }: HostStart) {
    this.#launcher = launcher;
    this.#program = program;
    const { command, args, lifeline, reads } = program;
    const given = assignment === undefined ? {} : { assignment };
    this.#process = launcher.launch({ kind: 'host', command, args, env, pipes: PIPES, lifeline, reads, ...given });
    if (assignment !== undefined) this.#place = launcher.placeOf(assignment);
    const { pipes } = this.#process;
    const channel = pipes[CHANNEL_FD - FIRST_PIPE];
    const entries = pipes[ENTRY_FD - FIRST_PIPE];
    if (channel !== undefined) this.#open(channel);
    if (entries !== undefined) this.#readEntries(entries);
    this.#readOutput();
    const closed = Promise.all(pipes.map((end) => new Promise((done) => end.once('close', done))));
    this.exited = this.#process.gone.then(async (exit) => {
      this.#streams.finish();
      await closed;
      this.gone = true;
      this.#hearing.tell((listener) => listener.exited(this.#detailOf(exit)));
    });
  }

  get processScope(): ProcessScope {
    return PROCESS_SCOPES[this.#launcher.level];
  }

  /** Absent when it could not be started, and while it is not known yet. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Makes this spare the worker of an assignment. Frames reach it once its build is visible to it. */
  assign(assignment: Assignment): void {
    this.#place = this.#launcher.placeOf(assignment);
    this.#waiting = [];
    this.#process.assign(assignment).then(
      () => {
        const frames = this.#waiting ?? [];
        this.#waiting = undefined;
        for (const [frame, body] of frames) this.#channel?.send(frame, body);
      },
      (error: unknown) => this.kill(`assigning the worker process failed: ${messageOf(error)}`),
    );
  }

  /** Gives this process to a worker's listener, which receives all events, also earlier ones. */
  listen(listener: HostListener): void {
    this.#hearing.listen(listener);
  }

  send(frame: ToHost, body?: Uint8Array): void {
    const placed = frame.t === 'load' ? { ...frame, ...this.#place } : frame;
    if (this.#waiting === undefined) this.#channel?.send(placed, body);
    // The caller may use the body's memory again.
    else this.#waiting.push([placed, body === undefined ? undefined : Buffer.from(body)]);
  }

  recall(key: string, no: number): void {
    // A program with a lifeline may be blocked as a whole.
    if (this.#program.lifeline) this.#entries?.write(`${no} ${key}\n`);
    else this.send({ t: 'recall', key });
  }

  /** Kills the process and all it started; `why` becomes the detail of its exit. */
  kill(why?: string): void {
    if (!this.gone) this.#process.kill(why);
  }

  readWithin(share: ReadingShare | undefined): void {
    this.#streams.within(share);
  }

  refuse(why: string): void {
    if (this.#isRefused) return;
    this.#isRefused = true;
    this.#stopReading();
    this.#hearing.tell((listener) => listener.violation(why));
    this.kill(why);
  }

  /** Asks the process and all it started to end; `why` becomes the detail of its exit. */
  terminate(why: string): void {
    if (!this.gone) this.#process.terminate(why);
  }

  #open(socket: Socket): void {
    this.#channel = new FrameWriter(socket, process.nextTick);
    const reader = new FrameReader<unknown>({
      onFrame: (header, body) => this.#onFrame(checkHostFrame(header, body), body),
      limits: limitsOfHost,
      accepts: (header) => this.#hearing.accepts(checkHostFrame(header)),
    });
    this.#stopReading = () => {
      reader.stop();
      this.#entered.stop();
      socket.destroy();
    };
    const read = (data: Buffer): void => {
      try {
        reader.push(data);
      } catch (error) {
        this.refuse(messageOf(error));
      }
    };
    this.#streams.read(socket, read, () => reader.kept);
    socket.once('close', () => this.#hearing.tell((listener) => listener.closed()));
    // A broken channel means a dying process: its exit reports more.
    socket.on('error', () => undefined);
  }

  #readEntries(entries: Socket): void {
    this.#entries = entries;
    this.#streams.read(entries, (data) => this.#entered.push(data));
    entries.on('error', () => undefined);
  }

  #onFrame(frame: FromHost, body: Buffer): void {
    if (frame.t === 'up') this.up = true;
    this.#hearing.tell((listener) => listener.frame(frame, body));
  }

  #detailOf(exit: WorkerExit): string {
    if (exit.kind === 'not-started') return `starting the worker process failed: ${exit.reason}`;
    if (exit.reason !== undefined) return exit.reason;
    const unrun = this.up ? undefined : notRun(this.#program.command, exit.code);
    return unrun === undefined ? exitText(exit.code, exit.signal) : `starting the worker process failed: ${unrun}`;
  }

  #readOutput(): void {
    const output = new WorkerOutput((stream, text) => this.#hearing.tell((listener) => listener.line(stream, text)));
    for (const stream of ['stdout', 'stderr'] as const) {
      const source = this.#process[stream];
      if (source === undefined) continue;
      this.#streams.read(source, (data) => output.push(stream, data));
      source.on('end', () => output.end(stream));
    }
  }
}
