/** A worker's host in a container: frames over its private channel, its output, its exit. */
import { messageOf } from '../../../lib/to-error.ts';
import { FrameWriter } from '../frames.ts';
import type { Look } from '../gpu-view.ts';
import { BufferedListener, tellEntry, type HostListener } from '../hosted/host-listener.ts';
import type { Host } from '../hosted/host.ts';
import type { FromHost, ToHost } from '../host-protocol.ts';
import type { AccountReading } from '../account-reading.ts';
import { WorkerStreams } from '../reading/worker-streams.ts';
import type { WorkerEvents } from '../runtime.ts';
import { linesOf } from '../worker-output.ts';
import { WorkerChannel, type Connections } from './channel.ts';
import type { ContainerSpec } from './create-request.ts';
import { NO_PROGRAM, signalOf, WorkerContainer, type ContainerDeps, type Ending } from './worker-container.ts';

/** Time to read the channel to its end after the container has exited, ms. */
const CHANNEL_GRACE_MS = 1_000;

export interface ContainerHostStart {
  readonly deps: ContainerDeps;
  /** Folder of the channel, on this host. */
  readonly folder: string;
  /** See WorkerContainer. May reject: the network's address comes from the engine. */
  readonly orders: () => Promise<readonly ContainerSpec[]>;
  readonly memoryBytes: number;
  /** Detail of the exit when the image's program ends before it reported. */
  readonly needs: string;
}

export class ContainerHost implements Host {
  readonly pid = undefined;
  readonly processScope = 'own';
  readonly #start: ContainerHostStart;
  readonly #events: Pick<WorkerEvents, 'preparing' | 'startFailed'>;
  #container: WorkerContainer | undefined;
  #connections: Connections | undefined;
  #writer: FrameWriter | undefined;
  #unsent: (readonly [ToHost, Uint8Array | undefined])[] = [];
  readonly #hearing = new BufferedListener();
  readonly #streams = new WorkerStreams({
    frame: (frame, body) => this.#onFrame(frame, body),
    accepts: (frame) => this.#hearing.accepts(frame),
    entry: (line) => this.#hearing.tell((listener) => tellEntry(listener, line)),
    lines: (stream, text) => this.#onLines(stream, text),
    report: (line) => (this.#report = line),
    violation: (why) => this.refuse(why),
    ended: (role) => {
      if (role === 'channel') this.#hearing.tell((listener) => listener.closed());
    },
    lost: (why) => {
      this.#hearing.tell((listener) => listener.unread());
      this.kill(why);
    },
  });
  #isHeld = false;
  #killedFor: string | undefined;
  #killed = false;
  #isRefused = false;
  readonly #up = Promise.withResolvers<boolean>();
  /** The host has reported. */
  isUp = false;
  /** The container is gone, or its worker was told so. */
  gone = false;
  /** How the host ended, as reported by the container's first process. */
  #report = '';
  /** Resolves when the container is gone or was abandoned. */
  readonly exited: Promise<void>;

  constructor(start: ContainerHostStart, events: Pick<WorkerEvents, 'preparing' | 'startFailed'>) {
    this.#start = start;
    this.#events = events;
    this.exited = this.#live();
  }

  /** Resolves with true once the host has reported, or with false once it never will. */
  get up(): Promise<boolean> {
    return this.#up.promise;
  }

  listen(listener: HostListener): void {
    this.#hearing.listen(listener);
  }

  send(frame: ToHost, body?: Uint8Array): void {
    if (this.#writer === undefined || this.#isHeld) this.#unsent.push([frame, body]);
    else this.#writer.send(frame, body);
  }

  recall(key: string, no: number): void {
    this.#connections?.entry.write(`${no} ${key}\n`);
  }

  /** Frames wait for this promise from now on. If it rejects, the host is killed with the error's message. */
  hold(until: Promise<void>): void {
    this.#isHeld = true;
    until.then(
      () => {
        this.#isHeld = false;
        this.#flush();
      },
      (error: unknown) => this.kill(`starting the worker failed: ${messageOf(error)}`),
    );
  }

  /** As WorkerContainer.look. */
  async look(command: readonly string[], limitMs: number): Promise<Look | undefined> {
    return this.#container?.look(command, limitMs);
  }

  /** Gives the container a readable name. */
  rename(name: string): void {
    this.#container?.rename(name);
  }

  kill(why?: string): void {
    this.#killedFor ??= why;
    this.#killed = true;
    // The container ends when its first process sees this connection close or when the engine is asked to kill it,
    // whichever is faster.
    this.#connections?.lifeline.destroy();
    this.#container?.kill(this.#killedFor);
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

  terminate(why: string): void {
    this.#killedFor ??= why;
    this.#container?.terminate(why);
  }

  async #live(): Promise<void> {
    let channel: WorkerChannel | undefined;
    let detail = 'the worker was killed';
    try {
      channel = await WorkerChannel.open(this.#start.folder);
      void channel.connected.then((connections) => this.#connect(connections));
      const orders = await this.#start.orders();
      const ending = await this.#contain(orders);
      this.#streams.finish();
      await this.#channelsRead();
      detail = this.#describe(ending);
    } catch (error) {
      detail = `starting the worker failed: ${messageOf(error)}`;
    } finally {
      await channel?.close();
    }
    this.#streams.finish();
    this.gone = true;
    this.#up.resolve(false);
    const last = this.#killedFor ?? detail;
    this.#hearing.tell((listener) => listener.exited(last));
    await this.#container?.gone;
  }

  #contain(orders: readonly ContainerSpec[]): Promise<Ending> {
    const { promise, resolve } = Promise.withResolvers<Ending>();
    this.#container = new WorkerContainer(this.#start.deps, orders, {
      preparing: (reason, text) => this.#events.preparing(reason, text),
      startFailed: (reason, text) => this.#events.startFailed(reason, text),
      running: () => undefined,
      streams: this.#streams,
      isAlive: () => this.#connections?.lifeline.readable === true,
      ended: resolve,
    });
    if (this.#killed) this.#container.kill(this.#killedFor);
    return promise;
  }

  #connect(connections: Connections): void {
    const { channel, entry, lifeline } = connections;
    this.#connections = connections;
    if (this.#killed) lifeline.destroy();
    this.#streams.read('channel', channel);
    this.#streams.read('entries', entry, { stays: true });
    // Another process that held it open would keep the container alive without the agent.
    this.#streams.read('report', lifeline, { stays: true });
    this.#writer = new FrameWriter(channel, process.nextTick);
    this.#flush();
  }

  #onFrame(frame: FromHost, body: Buffer): void {
    if (frame.t === 'up') this.#isThere();
    this.#hearing.tell((listener) => listener.frame(frame, body));
  }

  #onLines(stream: 'stdout' | 'stderr', text: string): void {
    for (const line of linesOf(text)) {
      this.#container?.printed(stream, line);
      this.#hearing.tell((listener) => listener.line(stream, line));
    }
  }

  #flush(): void {
    if (this.#writer === undefined || this.#isHeld) return;
    for (const [frame, body] of this.#unsent) this.#writer.send(frame, body);
    this.#unsent = [];
  }

  #isThere(): void {
    this.isUp = true;
    this.#container?.noteReport();
    this.#up.resolve(true);
  }

  /** Messages sent before its end may still be in the sockets. */
  async #channelsRead(): Promise<void> {
    if (this.#connections === undefined) return;
    const { channel, entry, lifeline } = this.#connections;
    const ends = this.#streams.ended('channel', 'entries', 'report');
    await Promise.race([ends, new Promise((resolve) => setTimeout(resolve, CHANNEL_GRACE_MS).unref())]);
    for (const socket of [channel, entry, lifeline]) socket.destroy();
  }

  #describe({ cause, startError, exitCode, outOfMemory, engineError, lastWords }: Ending): string {
    if (cause !== undefined) return cause;
    const { memoryBytes, needs } = this.#start;
    if (startError !== undefined) return NO_PROGRAM.test(startError) ? `${startError} (${needs})` : startError;
    const [, how, number = '', oom] = /^(exit|signal) (\d+)( oom)?$/.exec(this.#report) ?? [];
    if (outOfMemory || oom !== undefined) return outOfMemoryText(exitCode, memoryBytes);
    if (how === 'exit') return `the worker's process exited with code ${number}`;
    if (how === 'signal') return `the worker's process was killed by ${signalOf(128 + Number(number)) ?? `signal ${number}`}`;
    const end = containerEnd(exitCode, engineError);
    if (this.isUp) return end;
    return `${end}${lastWords === '' ? '' : `: ${lastWords}`} (${needs})`;
  }
}

/** The same prefix as in the process runtimes; the engine reports no more than an out-of-memory kill. */
export function outOfMemoryText(exitCode: number | undefined, memoryBytes: number): string {
  const code = exitCode === undefined ? '' : ` (exit code ${exitCode}, OOMKilled)`;
  const limit = memoryBytes > 0 ? `, the limit is ${Math.round(memoryBytes / 1024 / 1024)} MiB` : ', the host is out of memory';
  return `memory limit exceeded: the container ran out of memory${code}${limit}`;
}

export function containerEnd(exitCode: number | undefined, engineError: string): string {
  if (exitCode === undefined) return `the container disappeared${engineError === '' ? '' : `: ${engineError}`}`;
  const signal = signalOf(exitCode);
  const how = signal === undefined ? `exited with code ${exitCode}` : `was killed by ${signal} (exit code ${exitCode})`;
  return `the container ${how}${engineError === '' ? '' : `: ${engineError}`}`;
}
