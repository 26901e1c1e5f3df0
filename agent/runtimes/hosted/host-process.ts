/** One host process as the agent sees it: its channel, its output, its death. Spare until a worker takes it. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Stream } from 'node:stream';

import { FrameReader, FrameWriter } from '../frames.ts';
import { LineSplitter } from '../lines.ts';
import { endGroup, killGroup, signalGroup } from '../process-group.ts';
import type { HostProgram } from './host-program.ts';
import { groupResidentBytes, residentBytes } from './resident-memory.ts';
import { CHANNEL_FD, ENTRY_FD, LIFELINE_FD, type FromHost, type ToHost } from './protocol.ts';

const MEMORY_POLL_MS = 250;
const OUTPUT_GRACE_MS = 1_000;

export interface HostListener {
  /** The handler of this task was entered. May come after the task's end, from the other channel. */
  entered(key: string): void;
  frame(frame: FromHost, body: Buffer): void;
  line(stream: 'stdout' | 'stderr', text: string): void;
  exited(detail: string): void;
}

export class HostProcess {
  readonly #child: ChildProcess;
  #channel: FrameWriter | undefined;
  #listener: HostListener | undefined;
  #early: (() => void)[] = [];
  #killedFor: string | undefined;
  #memoryTimer: NodeJS.Timeout | undefined;
  readonly #groupMemory: boolean;
  /** The process has said that it is there. */
  up = false;
  /** The process is gone, or could not be started. */
  gone = false;
  /** Resolves when the process is gone. */
  readonly exited: Promise<void>;

  constructor(program: HostProgram, env: Readonly<Record<string, string>>) {
    this.#groupMemory = program.groupMemory;
    this.#child = spawn(program.command, program.args, {
      detached: true,
      env,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', ...(program.lifeline ? (['pipe'] as const) : [])],
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    this.#child.once('error', (error) => this.#onExit(`the worker's process could not be started: ${error.message}`, resolve));
    if (this.#child.pid === undefined) return;
    const socket = this.#child.stdio[CHANNEL_FD] as Socket;
    this.#channel = new FrameWriter(socket, process.nextTick);
    const reader = new FrameReader<FromHost>((frame, body) => this.#onFrame(frame, body));
    socket.on('data', (data: Buffer) => {
      try {
        reader.push(data);
      } catch (error) {
        this.kill(error instanceof Error ? error.message : String(error));
      }
    });
    const entries = this.#child.stdio[ENTRY_FD] as Socket;
    const entered = new LineSplitter((key) => this.#tell(() => this.#listener?.entered(key)));
    entries.on('data', (data: Buffer) => entered.push(data));
    // A broken channel is a dying process: its exit says more.
    socket.on('error', () => undefined);
    entries.on('error', () => undefined);
    // Nothing ever passes here; that it is open is all it says.
    const lifeline = (this.#child.stdio as readonly (Stream | null | undefined)[])[LIFELINE_FD] as Socket | null | undefined;
    lifeline?.on('error', () => undefined);
    this.#readOutput('stdout');
    this.#readOutput('stderr');
    const channelsClosed = Promise.all([socket, entries].map((end) => new Promise((done) => end.once('close', done))));
    this.#child.once('exit', (code, signal) => {
      clearInterval(this.#memoryTimer);
      lifeline?.destroy();
      const { pid } = this.#child;
      void Promise.all([channelsClosed, pid === undefined ? undefined : endGroup(pid)]).then(() =>
        this.#onExit(deathOf(code, signal), resolve),
      );
      // What outlived the group may hold the pipes for ever.
      setTimeout(() => {
        this.#child.stdout?.destroy();
        this.#child.stderr?.destroy();
      }, OUTPUT_GRACE_MS).unref();
    });
  }

  /** The worker that this process now is; hears everything, also what came before. */
  listen(listener: HostListener): void {
    this.#listener = listener;
    process.nextTick(() => {
      const early = this.#early;
      this.#early = [];
      for (const tell of early) tell();
    });
  }

  send(frame: ToHost, body?: Uint8Array): void {
    this.#channel?.send(frame, body);
  }

  /** Kills the process and all it started; `why` becomes the detail of its exit. */
  kill(why?: string): void {
    if (this.gone) return;
    this.#killedFor ??= why;
    if (this.#child.pid !== undefined) killGroup(this.#child.pid);
  }

  /** Asks the process and all it started to end; `why` becomes the detail of its exit. */
  terminate(why: string): void {
    if (this.gone) return;
    this.#killedFor ??= why;
    if (this.#child.pid !== undefined) signalGroup(this.#child.pid, 'SIGTERM');
  }

  /** Kills the process when its resident memory passes the limit, bytes. */
  limitMemory(limit: number): void {
    if (limit <= 0) return;
    const { pid } = this.#child;
    if (pid === undefined) return;
    let asked = false;
    this.#memoryTimer = setInterval(() => {
      if (asked) return;
      asked = true;
      void (this.#groupMemory ? groupResidentBytes(pid) : residentBytes(pid)).then((bytes) => {
        asked = false;
        if (bytes > limit) this.kill(`memory limit exceeded: ${mebibytes(bytes)} MiB resident, the limit is ${mebibytes(limit)} MiB`);
      });
    }, MEMORY_POLL_MS);
    this.#memoryTimer.unref();
  }

  #onFrame(frame: FromHost, body: Buffer): void {
    if (frame.t === 'up') this.up = true;
    this.#tell(() => this.#listener?.frame(frame, body));
  }

  #onExit(detail: string, resolve: () => void): void {
    if (this.gone) return;
    this.gone = true;
    this.#tell(() => this.#listener?.exited(this.#killedFor ?? detail));
    resolve();
  }

  #tell(tell: () => void): void {
    if (this.#listener !== undefined && this.#early.length === 0) tell();
    else this.#early.push(tell);
  }

  #readOutput(stream: 'stdout' | 'stderr'): void {
    const lines = new LineSplitter((text) => this.#tell(() => this.#listener?.line(stream, text)));
    this.#child[stream]?.on('data', (data: Buffer) => lines.push(data)).on('end', () => lines.end());
  }
}

function deathOf(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `the worker's process exited with code ${code ?? 'unknown'}` : `the worker's process was killed by ${signal}`;
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}
