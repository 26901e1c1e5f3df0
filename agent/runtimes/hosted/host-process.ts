/** One host process as the agent sees it: its channel, its output, its exit. It is a spare until a worker takes it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Stream } from 'node:stream';

import { messageOf } from '../../../lib/to-error.ts';
import { FrameReader, FrameWriter } from '../frames.ts';
import { AGENT_MARK, HOST_MARK, killEscaped, WORKER_MARK } from '../escaped.ts';
import { limited, notRun } from '../leash.ts';
import { LineSplitter } from '../lines.ts';
import { limitMemory } from '../memory-limit.ts';
import { WorkerOutput } from '../worker-output.ts';
import { exitText, endGroup, killGroup, signalGroup } from '../process-group.ts';
import { checkHostFrame } from './host-frames.ts';
import { BufferedListener, type HostListener } from './host-listener.ts';
import type { Host } from './host.ts';
import type { HostProgram } from './host-program.ts';
import { CHANNEL_FD, ENTRY_FD, LIFELINE_FD, type FromHost, type ToHost } from './protocol.ts';

const OUTPUT_GRACE_MS = 1_000;

export class HostProcess implements Host {
  readonly #child: ChildProcess;
  #channel: FrameWriter | undefined;
  readonly #hearing = new BufferedListener();
  #killedFor: string | undefined;
  #workerId: string | undefined;
  #workFolder = '';
  #endMemoryWatch: (() => void) | undefined;
  /** The process has reported. */
  up = false;
  /** The process is gone, or could not be started. */
  gone = false;
  readonly exited: Promise<void>;

  constructor(program: HostProgram, env: Readonly<Record<string, string>>) {
    const [command, args] = limited(program.command, program.args);
    const hostId = randomUUID();
    this.#child = spawn(command, args, {
      detached: true,
      env: { ...env, [HOST_MARK]: hostId },
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', ...(program.lifeline ? (['pipe'] as const) : [])],
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    this.#child.once('error', (error) => this.#onExit(`starting the worker process failed: ${error.message}`, resolve));
    if (this.#child.pid === undefined) return;
    const socket = this.#child.stdio[CHANNEL_FD] as Socket;
    this.#channel = new FrameWriter(socket, process.nextTick);
    const reader = new FrameReader<unknown>((header, body) => this.#onFrame(checkHostFrame(header, body), body));
    socket.on('data', (data: Buffer) => {
      try {
        reader.push(data);
      } catch (error) {
        this.kill(messageOf(error));
      }
    });
    const entries = this.#child.stdio[ENTRY_FD] as Socket;
    const entered = new LineSplitter((key) => this.#hearing.tell((listener) => listener.entered(key)));
    entries.on('data', (data: Buffer) => entered.push(data));
    socket.once('close', () => this.#hearing.tell((listener) => listener.closed()));
    // A broken channel means a dying process: its exit reports more.
    socket.on('error', () => undefined);
    entries.on('error', () => undefined);
    // No data is ever sent here; only the open connection matters.
    const lifeline = (this.#child.stdio as readonly (Stream | null | undefined)[])[LIFELINE_FD] as Socket | null | undefined;
    lifeline?.on('error', () => undefined);
    this.#readOutput();
    const channelsClosed = Promise.all([socket, entries].map((end) => new Promise((done) => end.once('close', done))));
    this.#child.once('exit', (code, signal) => {
      this.#endMemoryWatch?.();
      lifeline?.destroy();
      const { pid } = this.#child;
      const ended = pid === undefined ? Promise.resolve() : endGroup(pid);
      const swept = ended.then(() => {
        const workerId = this.#workerId;
        return workerId === undefined ? 0 : killEscaped({ agent: env[AGENT_MARK], workerId, hostId, workFolder: this.#workFolder });
      });
      const unrun = this.up ? undefined : notRun(program.command, code);
      const detail = unrun === undefined ? exitText(code, signal) : `starting the worker process failed: ${unrun}`;
      void Promise.all([channelsClosed, swept]).then(() => this.#onExit(detail, resolve));
      // Processes that escaped the group may hold the pipes open forever.
      setTimeout(() => {
        this.#child.stdout?.destroy();
        this.#child.stderr?.destroy();
      }, OUTPUT_GRACE_MS).unref();
    });
  }

  /** Absent when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Assigns this process to a worker, which receives all events, also earlier ones. */
  listen(listener: HostListener): void {
    this.#hearing.listen(listener);
  }

  send(frame: ToHost, body?: Uint8Array): void {
    // From now on, processes that it starts carry this name.
    if (frame.t === 'load') {
      this.#workerId = frame.env[WORKER_MARK];
      this.#workFolder = frame.workFolder;
    }
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

  /** Kills the process when the resident memory of its group exceeds the limit, bytes. */
  limitMemory(limit: number): void {
    const { pid } = this.#child;
    if (pid !== undefined) this.#endMemoryWatch = limitMemory(pid, limit, (why) => this.kill(why));
  }

  #onFrame(frame: FromHost, body: Buffer): void {
    if (frame.t === 'up') this.up = true;
    this.#hearing.tell((listener) => listener.frame(frame, body));
  }

  #onExit(detail: string, resolve: () => void): void {
    if (this.gone) return;
    this.gone = true;
    this.#hearing.tell((listener) => listener.exited(this.#killedFor ?? detail));
    resolve();
  }

  #readOutput(): void {
    const output = new WorkerOutput((stream, text) => this.#hearing.tell((listener) => listener.line(stream, text)));
    for (const stream of ['stdout', 'stderr'] as const) {
      this.#child[stream]?.on('data', (data: Buffer) => output.push(stream, data)).on('end', () => output.end(stream));
    }
  }
}
