/** The process that runs one worker file for the development server; ended with everything it started. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { CapstanError } from '../../proto/errors.ts';
import { installRoot } from '../config.ts';
import type { Language } from '../discovery/declared.ts';

const PYTHON = fileURLToPath(new URL('python/run_worker.py', import.meta.url));
const NODE = fileURLToPath(new URL('run-worker.ts', import.meta.url));

/** One call, as the process is told. */
export interface Order {
  readonly id: string;
  readonly endpoint: string;
  readonly function: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** The function takes the input as it is. */
  readonly whole: boolean;
  /** Names in order where they are arguments by position; null where the process reads them itself. */
  readonly parameters: readonly string[] | null;
  /** Public methods of a class. */
  readonly methods: readonly string[];
  readonly route: { readonly method: string; readonly path: string } | null;
}

export type Told =
  | { readonly t: 'ready' }
  | { readonly t: 'failed'; readonly error: string }
  | { readonly t: 'ended'; readonly id: string; readonly value: unknown }
  | { readonly t: 'threw'; readonly id: string; readonly error: string; readonly input: boolean };

export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: string; readonly isInput: boolean };

export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<string, (outcome: Outcome) => void>();
  readonly #ready = Promise.withResolvers<void>();
  #over = false;

  constructor(root: string, file: string, language: Language, env: Readonly<Record<string, string | undefined>>) {
    this.#child =
      language === 'python'
        ? spawn('python3', [PYTHON, root, file, join(installRoot, 'sdk/python')], {
            stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
            env: { PYTHONUNBUFFERED: '1', PYTHONDONTWRITEBYTECODE: '1', ...env },
            detached: true,
          })
        : spawn(process.execPath, [NODE, root, file], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env, detached: true });
    // A file that fails to load is told to whoever calls it.
    this.#ready.promise.catch(() => undefined);
    const lines = this.#child.stdio[3];
    if (language === 'python') createInterface({ input: lines as Readable }).on('line', (line) => this.#hear(JSON.parse(line) as Told));
    else this.#child.on('message', (told: Told) => this.#hear(told));
    this.#child.stdin?.on('error', () => undefined);
    this.#child.on('error', (error) => this.#end(`the worker of ${file} cannot start: ${error.message}`));
    this.#child.on('exit', (code, signal) => this.#end(`the worker of ${file} ended with ${signal ?? `exit code ${String(code)}`}`));
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** @throws CapstanError INVALID_MANIFEST when its file does not load, WORKER_LOST when it ends. */
  async call(order: Order): Promise<Outcome> {
    await this.#ready.promise;
    const answer = Promise.withResolvers<Outcome>();
    this.#waiting.set(order.id, answer.resolve);
    if (this.#child.stdin === null) this.#child.send(order);
    else this.#child.stdin.write(`${JSON.stringify(order)}\n`);
    return answer.promise;
  }

  /** Kills it with its group, and settles when it is gone. */
  async close(): Promise<void> {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      this.#child.kill('SIGKILL'); // its group is gone already
    }
    await gone;
  }

  #hear(told: Told): void {
    switch (told.t) {
      case 'ready':
        this.#ready.resolve();
        break;
      case 'failed':
        this.#over = true;
        this.#ready.reject(new CapstanError('INVALID_MANIFEST', told.error));
        break;
      case 'ended':
        this.#settle(told.id, { ok: true, value: told.value });
        break;
      case 'threw':
        this.#settle(told.id, { ok: false, error: told.error, isInput: told.input });
        break;
      default:
        throw new Error('a worker told something unknown');
    }
  }

  #settle(id: string, outcome: Outcome): void {
    this.#waiting.get(id)?.(outcome);
    this.#waiting.delete(id);
  }

  #end(error: string): void {
    this.#over = true;
    this.#ready.reject(new CapstanError('WORKER_LOST', error));
    for (const settle of this.#waiting.values()) settle({ ok: false, error, isInput: false });
    this.#waiting.clear();
  }
}
