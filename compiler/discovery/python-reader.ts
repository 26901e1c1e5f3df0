/** A Python process that parses files of declarations, one request after another. Starting it takes longer than parsing. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { ToolError } from '../../terminal/tool-error.ts';

const PROGRAM = fileURLToPath(new URL('python/discover.py', import.meta.url));
const TIMEOUT_MS = 30_000;

/** A process and how it ended. */
interface Running {
  readonly child: ChildProcessWithoutNullStreams;
  /** Exit code, signal, or the system's error code. */
  readonly ended: Promise<number | string>;
  output: string;
  errors: string;
  isOver: boolean;
  onLine: ((line: string) => void) | null;
}

export class PythonReader {
  #running: Running | null = null;
  #before: Promise<unknown> = Promise.resolve();

  /**
   * Returns the answer to a request (discover.py), parsed. The process stays for the next request until `close`.
   * @throws CapstanError CONFIG when this machine has no suitable Python.
   */
  read(request: object): Promise<unknown> {
    const answer = this.#before.then(() => this.#readOne(request));
    this.#before = answer.catch(() => undefined);
    return answer;
  }

  /** Ends the process. */
  async close(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    if (running === null) return;
    running.child.kill('SIGKILL');
    await running.ended;
  }

  async #readOne(request: object): Promise<unknown> {
    const running = this.#running?.isOver === false ? this.#running : start();
    this.#running = running;
    const line = new Promise<string>((resolve) => {
      running.onLine = resolve;
    });
    const timer = setTimeout(() => running.child.kill('SIGKILL'), TIMEOUT_MS);
    running.child.stdin.write(`${JSON.stringify(request)}\n`);
    const answer = await Promise.race([line, running.ended]);
    clearTimeout(timer);
    // Both are there when the process ended right after its answer.
    if (typeof answer === 'string' && answer.startsWith('{')) return JSON.parse(answer) as unknown;
    const why = answer === 'ENOENT' ? 'it was not found' : (running.errors.trim().split('\n').at(-1) ?? `it ended with ${answer}`);
    throw new ToolError(
      'CONFIG',
      `python3 is required to read the Python files of this application: ${why}`,
      'Install Python 3.8 or newer as `python3`.',
    );
  }
}

function start(): Running {
  const child = spawn('python3', ['-I', PROGRAM], { stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = new Promise<number | string>((resolve) => {
    child.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    child.on('close', (status, signal) => resolve(status ?? signal ?? 'a signal'));
  });
  const running: Running = { child, ended, output: '', errors: '', isOver: false, onLine: null };
  void ended.then(() => {
    running.isOver = true;
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    running.output += text;
    const end = running.output.indexOf('\n');
    if (end === -1) return;
    const line = running.output.slice(0, end);
    running.output = running.output.slice(end + 1);
    running.onLine?.(line);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (running.errors += text));
  // A Python that cannot start closes its pipe before anything is written to it.
  child.stdin.on('error', () => undefined);
  return running;
}
