/** One container from the pull of its image to its removal. It runs our bootstrap or the image of a foreign worker. */
import { readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';

import type Docker from 'dockerode';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { MAX_LOOK, type Look } from '../gpu-view.ts';
import type { WorkerStreams } from '../reading/worker-streams.ts';
import type { ContainerSpec, ContainerRules } from './create-request.ts';
import { engineMessage, engineStatus, isMissingImage, type ContainerEngine } from './engine.ts';
import type { ImagePulls } from './image-pull.ts';

/** Time-out of one engine call that changes something, ms: a disk may be cold, an image large. */
const CALL_MS = 120_000;
/** Interval between checks of a container whose engine did not answer, ms. */
const LOOK_AGAIN_MS = 1_000;
/** Number of such checks without another sign of life; after them the container is left to the next sweep. */
const LOOKS = 60;
/** Time for the last lines after the container's end, ms. */
const OUTPUT_GRACE_MS = 1_000;

/** The image's program is missing, or is built for another architecture. */
export const NO_PROGRAM = /no such file or directory|executable file.*not found|exec format error|not found in \$PATH/i;

export interface ContainerDeps {
  readonly engine: ContainerEngine;
  readonly pulls: Pick<ImagePulls, 'pull'>;
  readonly rules: ContainerRules;
  /** Whether containers have a kernel of their own (gVisor), so that their processes are not processes of the host. */
  readonly hasOwnKernel: () => boolean;
  /** A container could not be removed: the next sweep removes it. */
  readonly onLeftBehind: () => void;
}

export interface ContainerListener {
  /** As WorkerEvents. */
  preparing(reason: string, detail: string): void;
  startFailed(reason: string, detail: string): void;
  /** Reads its output; each line must be passed to `printed`. */
  readonly streams: Pick<WorkerStreams, 'read' | 'ended'>;
  /** Its first process runs. */
  running(): void;
  /** Its program is known to be alive, whatever the engine reports. */
  isAlive(): boolean;
  /** It is gone with all its processes. Called once, last. */
  ended(ending: Ending): void;
}

export interface Ending {
  /** Why the agent killed it; absent when it ended by itself. */
  readonly cause: string | undefined;
  /** Why it could not be started; absent when it was. */
  readonly startError: string | undefined;
  /** Absent when the engine does not report it. */
  readonly exitCode: number | undefined;
  readonly outOfMemory: boolean;
  /** The engine's message about the end, if any. */
  readonly engineError: string;
  /** The last line on stderr. */
  readonly lastWords: string;
}

/** The end of a program in the container, as the engine reports it. */
type Exit = Pick<Ending, 'exitCode' | 'outOfMemory' | 'engineError'>;
const UNKNOWN_EXIT: Exit = { exitCode: undefined, outOfMemory: false, engineError: '' };

export class WorkerContainer {
  readonly #deps: ContainerDeps;
  readonly #listener: ContainerListener;
  readonly #stop = new AbortController();
  #cause: string | undefined;
  #startError: string | undefined;
  #container: Docker.Container | undefined;
  #isRunning = false;
  #hasReported = false;
  #lastWords = '';
  /** Resolves when the container is gone or was abandoned. */
  readonly gone: Promise<void>;

  /** `orders`: the same container with different programs; the next one is tried when a program is not in the image. */
  constructor(deps: ContainerDeps, orders: readonly ContainerSpec[], listener: ContainerListener) {
    this.#deps = deps;
    this.#listener = listener;
    this.gone = this.#live(orders);
  }

  /** Its program has reported: an exit is now its own, and no other program is tried. */
  noteReport(): void {
    this.#hasReported = true;
  }

  /** It printed a line. */
  printed(stream: 'stdout' | 'stderr', line: string): void {
    if (stream === 'stderr' && line.trim() !== '') this.#lastWords = line.trim();
  }

  /** Kills everything in it; `why` becomes the cause of its end. */
  kill(why?: string): void {
    this.#cause ??= why;
    this.#stop.abort();
    this.#signal('SIGKILL');
  }

  /** Sends SIGTERM to its first process; `why` becomes the cause of its end. Returns false when nothing runs. */
  terminate(why?: string): boolean {
    if (!this.#isRunning) return false;
    this.#cause ??= why;
    this.#signal('SIGTERM');
    return true;
  }

  /** Returns the port of this host at which a published port is reached. Rejects when the engine does not report it. */
  async hostPort(port: number): Promise<number> {
    const facts = await this.#container?.inspect({ abortSignal: AbortSignal.timeout(CALL_MS) });
    // The client's types have no port without a mapping.
    const bound = facts?.NetworkSettings.Ports as Readonly<Record<string, readonly { readonly HostPort: string }[] | null>> | undefined;
    const found = Number(bound?.[`${port}/tcp`]?.[0]?.HostPort ?? 0);
    if (found === 0) throw new CapstanError('UNAVAILABLE', `the container engine did not publish port ${port}`);
    return found;
  }

  /** Returns the pid of its first process where that is a process of this host; undefined elsewhere, as in another pid namespace. */
  async hostPid(): Promise<number | undefined> {
    const container = this.#container;
    try {
      const facts = await container?.inspect({ abortSignal: AbortSignal.timeout(CALL_MS) });
      const pid = facts?.State.Pid ?? 0;
      if (container === undefined || pid <= 0) return undefined;
      return (await readFile(`/proc/${pid}/cgroup`, 'latin1')).includes(container.id) ? pid : undefined;
    } catch {
      // It has ended, or the engine's host is not this one.
      return undefined;
    }
  }

  /**
   * Runs a program in it, under its rules for devices, and resolves with its exit code and the first characters of its output; undefined
   * when the engine cannot run it, or it has not ended in time.
   */
  async look(command: readonly string[], limitMs: number): Promise<Look | undefined> {
    const container = this.#isRunning ? this.#container : undefined;
    if (container === undefined) return undefined;
    const abortSignal = AbortSignal.timeout(limitMs);
    try {
      const exec = await container.exec({ Cmd: [...command], AttachStdout: true, AttachStderr: true, Tty: true, abortSignal });
      const stream = await exec.start({ Tty: true, abortSignal });
      let output = '';
      await new Promise<void>((resolve, reject) => {
        abortSignal.addEventListener('abort', () => reject(new Error('late')), { once: true });
        stream.on('data', (bytes: Buffer) => {
          if (output.length < MAX_LOOK) output += bytes.toString();
        });
        stream.once('end', resolve);
        stream.once('error', reject);
      }).finally(() => stream.destroy());
      const { ExitCode: exitCode } = await exec.inspect({ abortSignal });
      return exitCode === null ? undefined : { exitCode, output: output.slice(0, MAX_LOOK).trim() };
    } catch {
      // The container has ended, or has no such program: nothing can be told.
      return undefined;
    }
  }

  /** Gives it a readable name; its id stays its identity. */
  rename(name: string): void {
    // The engine does not support it, or the container has just ended: nothing depends on the name.
    this.#container?.rename({ name }).catch(() => undefined);
  }

  async #live(orders: readonly ContainerSpec[]): Promise<void> {
    let exit = UNKNOWN_EXIT;
    try {
      for (const [index, order] of orders.entries()) {
        exit = await this.#run(order, index === orders.length - 1);
        if (this.#stop.signal.aborted || !this.#triesNext(exit, index, orders.length)) break;
      }
    } catch (error) {
      this.#fail(error);
    }
    const { exitCode, outOfMemory, engineError } = exit;
    const [cause, startError, lastWords] = [this.#cause, this.#startError, this.#lastWords];
    this.#listener.ended({ cause, startError, exitCode, outOfMemory, engineError, lastWords });
    await this.#remove();
  }

  #triesNext({ exitCode, engineError }: Exit, index: number, count: number): boolean {
    if (this.#hasReported || index === count - 1) return false;
    return exitCode === 126 || exitCode === 127 || NO_PROGRAM.test(engineError) || NO_PROGRAM.test(this.#lastWords);
  }

  #fail(error: unknown): void {
    if (this.#stop.signal.aborted) {
      this.#cause ??= 'the worker was killed';
      return;
    }
    const detail = error instanceof CapstanError ? error.message : engineMessage(error);
    this.#startError = `starting the container failed: ${detail}`;
  }

  /** Makes one attempt and returns how it ended. Rejects when no container was created. */
  async #run(order: ContainerSpec, isLast: boolean): Promise<Exit> {
    await this.#remove();
    this.#lastWords = '';
    const container = await this.#create(order);
    this.#container = container;
    this.#stop.signal.throwIfAborted();
    const { over } = await this.#attach(container);
    try {
      await container.start({ abortSignal: AbortSignal.timeout(CALL_MS) });
    } catch (error) {
      const engineError = engineMessage(error);
      if (isLast || !NO_PROGRAM.test(engineError)) throw error;
      return { ...UNKNOWN_EXIT, engineError };
    }
    this.#isRunning = true;
    if (this.#stop.signal.aborted) this.#signal('SIGKILL');
    this.#listener.running();
    const exit = await this.#exitOf(container, over);
    this.#isRunning = false;
    await Promise.race([over, new Promise((resolve) => setTimeout(resolve, OUTPUT_GRACE_MS).unref())]);
    return exit;
  }

  /** Creates the container; pulls the image first if the engine lacks it. */
  async #create(order: ContainerSpec): Promise<Docker.Container> {
    // Never aborted: a container created after a disconnect would have no owner.
    const create = (): Promise<Docker.Container> => this.#deps.engine.create(order, this.#deps.rules);
    try {
      return await create();
    } catch (error) {
      if (!isMissingImage(error)) throw error;
    }
    await this.#pull(order.image);
    return create();
  }

  async #pull(image: string): Promise<void> {
    const onProgress = (text: string): void => this.#listener.preparing('IMAGE_PULL', text === '' ? image : `${image}: ${text}`);
    try {
      await this.#deps.pulls.pull(image, onProgress, this.#stop.signal);
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        this.#cause = messageOf(error);
        this.#listener.startFailed('IMAGE_PULL_FAILED', this.#cause);
      }
      throw error;
    }
    this.#listener.preparing('STARTING', '');
  }

  /** Reads its output from before its first byte; `over` resolves with its last one. */
  async #attach(container: Docker.Container): Promise<{ readonly over: Promise<void> }> {
    const stream = await container.attach({ stream: true, stdout: true, stderr: true });
    this.#listener.streams.read('engine', stream as NodeJS.ReadableStream as Readable);
    // An engine restart ends this stream; the worker continues without its raw output.
    return { over: this.#listener.streams.ended('engine') };
  }

  /** Returns how it ended, even if the engine is unavailable at times; `over` is the end of the container's output. */
  async #exitOf(container: Docker.Container, over: Promise<void>): Promise<Exit> {
    // If the engine stops in the middle of its response, this call never ends; the output ends then, too.
    const waited = container.wait().catch(() => undefined);
    await Promise.race([waited, over]);
    for (let looks = 0; looks < LOOKS; looks = this.#listener.isAlive() ? 0 : looks + 1) {
      try {
        const { State } = await container.inspect({ abortSignal: AbortSignal.timeout(CALL_MS) });
        if (!State.Running) return { exitCode: State.ExitCode, outOfMemory: State.OOMKilled, engineError: State.Error };
        looks = 0;
      } catch (error) {
        // Another client removed it.
        if (engineStatus(error) === 404) return UNKNOWN_EXIT;
      }
      if (this.#stop.signal.aborted) this.#signal('SIGKILL');
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
    return { ...UNKNOWN_EXIT, engineError: 'the container engine does not respond' };
  }

  #signal(signal: 'SIGKILL' | 'SIGTERM'): void {
    const container = this.#container;
    if (container === undefined || !this.#isRunning) return;
    container.kill({ signal }).catch((error: unknown) => {
      // Not running any more: its exit is about to be reported. #exitOf checks every other state again.
      if (engineStatus(error) === undefined) this.#deps.onLeftBehind();
    });
  }

  async #remove(): Promise<void> {
    const container = this.#container;
    if (container === undefined) return;
    this.#container = undefined;
    try {
      await container.remove({ force: true, v: true, abortSignal: AbortSignal.timeout(CALL_MS) });
    } catch (error) {
      if (engineStatus(error) !== 404) this.#deps.onLeftBehind();
    }
  }
}

/** Returns the signal of an exit code above 128; absent for others. */
export function signalOf(exitCode: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
}
