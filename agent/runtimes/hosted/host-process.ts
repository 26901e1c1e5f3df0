/** One host process as the agent sees it: its channel, its output, its exit. It is a spare until a worker takes it. */
import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

import { messageOf } from '../../../lib/to-error.ts';
import type { Assignment, Vantage, WorkerExit, WorkerLauncher, WorkerPlace, WorkerProcess } from '../../sandbox/launcher.ts';
import { FrameWriter } from '../frames.ts';
import { notRun } from '../leash.ts';
import { exitText } from '../process-group.ts';
import type { AccountReading } from '../account-reading.ts';
import { WorkerStreams } from '../reading/worker-streams.ts';
import { linesOf } from '../worker-output.ts';
import { BufferedListener, tellEntry, type HostListener } from './host-listener.ts';
import type { Host } from './host.ts';
import type { HostProgram } from './host-program.ts';
import { CHANNEL_FD, ENTRY_FD, type FromHost, type ProcessScope, type ToHost } from '../host-protocol.ts';

const PROCESS_SCOPES = { none: 'marked', user: 'user', sandbox: 'own' } as const satisfies Readonly<
  Record<WorkerLauncher['level'], ProcessScope>
>;
/** CHANNEL_FD and ENTRY_FD. */
const PIPES = 2;
const FIRST_PIPE = 3;
/** How long the last lines of a process that is gone may be on their way, ms. */
const LAST_LINES_MS = 100;

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
  readonly #hearing = new BufferedListener();
  readonly #streams: WorkerStreams;
  /** Where its worker sees its folders, once it has one. */
  #place: WorkerPlace | undefined;
  /** Frames for a worker whose build is not visible to it yet; undefined while frames are sent at once. */
  #waiting: (readonly [frame: ToHost, body: Uint8Array | undefined])[] | undefined;
  #isRefused = false;
  /** The process has reported. */
  up = false;
  /** The process is gone, or could not be started. */
  gone = false;
  readonly exited: Promise<void>;

  constructor({ launcher, program, env, assignment }: HostStart) {
    this.#launcher = launcher;
    this.#program = program;
    this.#streams = new WorkerStreams({
      frame: (frame, body) => this.#onFrame(frame, body),
      accepts: (frame) => this.#hearing.accepts(frame),
      entry: (line) => this.#hearing.tell((listener) => tellEntry(listener, line)),
      lines: (stream, text) => this.#onLines(stream, text),
      report: () => undefined,
      violation: (why) => this.refuse(why),
      ended: (role) => {
        if (role === 'channel') this.#hearing.tell((listener) => listener.closed());
      },
      lost: (why) => {
        this.#hearing.tell((listener) => listener.unread());
        this.kill(why);
      },
    });
    const { command, args, lifeline, reads } = program;
    const given = assignment === undefined ? {} : { assignment };
    this.#process = launcher.launch({ kind: 'host', command, args, env, pipes: PIPES, lifeline, reads, ...given });
    if (assignment !== undefined) this.#place = launcher.placeOf(assignment);
    const { pipes } = this.#process;
    const channel = pipes[CHANNEL_FD - FIRST_PIPE];
    const entries = pipes[ENTRY_FD - FIRST_PIPE];
    if (channel !== undefined) {
      this.#channel = new FrameWriter(channel, process.nextTick);
      this.#streams.read('channel', channel);
    }
    this.#entries = entries;
    if (entries !== undefined) this.#streams.read('entries', entries, { stays: true });
    for (const stream of ['stdout', 'stderr'] as const) {
      const source = this.#process[stream];
      // What creates a sandbox may complain first, which its launcher reads.
      if (source !== undefined) this.#streams.read(stream, source, { until: this.#process.started });
    }
    this.exited = this.#process.gone.then(async (exit) => {
      this.#streams.finish();
      await this.#streams.ended('channel', 'entries');
      await Promise.race([this.#streams.ended('stdout', 'stderr'), setTimeout(LAST_LINES_MS)]);
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

  /** As WorkerProcess. */
  get vantage(): Vantage | undefined {
    return this.#process.vantage;
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

  readWithin(reading: AccountReading | undefined): void {
    this.#streams.within(reading);
  }

  catchUp(): Promise<void> {
    return this.#streams.catchUp();
  }

  refuse(why: string): void {
    if (this.#isRefused) return;
    this.#isRefused = true;
    this.#streams.stop();
    this.#hearing.tell((listener) => listener.violation(why));
    this.kill(why);
  }

  /** Asks the process and all it started to end; `why` becomes the detail of its exit. */
  terminate(why: string): void {
    if (!this.gone) this.#process.terminate(why);
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

  #onLines(stream: 'stdout' | 'stderr', text: string): void {
    for (const line of linesOf(text)) this.#hearing.tell((listener) => listener.line(stream, line));
  }
}
