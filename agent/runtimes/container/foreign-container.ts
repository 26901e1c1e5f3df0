/** Launches the image of a foreign worker: it gets its environment and is watched. */
import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { WORKER_STOPPED } from '../../../lib/job-errors.ts';
import type { LaunchedProcess, LauncherEvents } from '../foreign/launcher.ts';
import type { Look } from '../gpu-view.ts';
import { maySignal } from '../process-group.ts';
import type { AccountReading } from '../account-reading.ts';
import { OutputStreams } from '../reading/output-streams.ts';
import { containerEnd, outOfMemoryText } from './container-host.ts';
import type { ContainerSpec } from './create-request.ts';
import { InnerProcesses } from './inner-processes.ts';
import { WorkerContainer, type ContainerDeps, type Ending } from './worker-container.ts';

export class ForeignContainer implements LaunchedProcess {
  /** Once it is known, where its processes are processes of this host (not in gVisor, which has a kernel of its own). */
  pid: number | undefined;
  readonly #inner = new InnerProcesses((command, limitMs) => this.look(command, limitMs));
  readonly #events: LauncherEvents;
  readonly #streams: OutputStreams;
  #container: WorkerContainer | undefined;
  #killedFor: string | undefined;
  #terminated = false;
  /** Resolves when the container is gone or was abandoned. */
  readonly exited: Promise<void>;

  /** `order` may reject; the worker then ends with the error's message. */
  constructor(deps: ContainerDeps, order: () => Promise<ContainerSpec>, events: LauncherEvents, reading?: AccountReading) {
    this.#events = events;
    const line = (stream: 'stdout' | 'stderr', text: string): void => {
      this.#container?.printed(stream, text);
      events.line(stream, text);
    };
    this.#streams = new OutputStreams({ line, lost: (why) => this.kill(why) }, reading);
    this.exited = this.#live(deps, order);
  }

  /** Sends SIGTERM to its first process. */
  terminate(): void {
    this.#terminated = true;
    // Nothing runs yet that could end gracefully.
    if (this.#container?.terminate() !== true) this.kill(WORKER_STOPPED);
  }

  kill(why: string): void {
    this.#killedFor ??= why;
    this.#container?.kill(why);
  }

  /** As WorkerContainer.look. */
  async look(command: readonly string[], limitMs: number): Promise<Look | undefined> {
    return this.#container?.look(command, limitMs);
  }

  /** As WorkerContainer.hostPort. */
  async hostPort(port: number): Promise<number> {
    if (this.#container === undefined) throw new CapstanError('UNAVAILABLE', 'the container disappeared');
    return this.#container.hostPort(port);
  }

  beginJob(): { end(): Promise<void> } | undefined {
    return this.#inner.begin();
  }

  /**
   * In gVisor the first process of this host is gVisor itself, and those below it are not the program's. An agent that is not root sees
   * the processes of an engine that is, and may not end them.
   */
  async #findProcesses(hasOwnKernel: boolean): Promise<void> {
    this.pid = hasOwnKernel ? undefined : await this.#container?.hostPid();
    if (this.pid === undefined || !maySignal(this.pid)) await this.#inner.readClock();
  }

  async #live(deps: ContainerDeps, order: () => Promise<ContainerSpec>): Promise<void> {
    let detail: string;
    try {
      const ordered = await order();
      const { promise, resolve } = Promise.withResolvers<Ending>();
      this.#container = new WorkerContainer(deps, [ordered], {
        preparing: (reason, text) => this.#events.preparing(reason, text),
        startFailed: (reason, text) => this.#events.startFailed(reason, text),
        streams: this.#streams,
        running: () => {
          this.#events.started();
          void this.#findProcesses(deps.hasOwnKernel());
        },
        isAlive: () => false,
        ended: resolve,
      });
      if (this.#killedFor !== undefined) this.#container.kill(this.#killedFor);
      detail = this.#describe(await promise, ordered.memoryBytes);
    } catch (error) {
      detail = `starting the worker failed: ${messageOf(error)}`;
    }
    this.#streams.finish();
    this.#events.exited(this.#killedFor ?? detail, this.#streams.isLost);
    await this.#container?.gone;
  }

  #describe({ cause, startError, exitCode, outOfMemory, engineError }: Ending, memoryBytes: number): string {
    if (cause !== undefined || startError !== undefined) return cause ?? startError ?? '';
    if (outOfMemory) return outOfMemoryText(exitCode, memoryBytes);
    const end = containerEnd(exitCode, engineError);
    return this.#terminated ? `the worker was stopped: ${end}` : end;
  }
}
