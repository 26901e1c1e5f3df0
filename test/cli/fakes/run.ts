/** Runs a program and hears what it says. */
import { spawn, type ChildProcess } from 'node:child_process';

export interface Run {
  readonly child: ChildProcess;
  /** All it printed so far. */
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Settles when what it printed, on either stream, matches. Rejects when it ends before. */
  hear(pattern: RegExp): Promise<RegExpExecArray>;
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly program?: string;
  /** Gives it a channel, as npm's set-up does. */
  readonly channel?: boolean;
  /** A process group of its own. */
  readonly detached?: boolean;
}

/** What every program of ours gets of this process's environment; without the cache each compiles all its sources anew. */
export const shared = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] };

export function run(args: readonly string[], options: RunOptions = {}): Run {
  const child = spawn(options.program ?? process.execPath, [...args], {
    stdio: ['ignore', 'pipe', 'pipe', ...(options.channel === true ? (['ipc'] as const) : [])],
    env: { ...shared, HOME: process.env['HOME'], NO_COLOR: '1', ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    detached: options.detached === true,
  });
  let stdout = '';
  let stderr = '';
  const listeners = new Set<() => void>();
  const collect = (into: (text: string) => void) => (chunk: string) => {
    into(chunk);
    for (const listen of listeners) listen();
  };
  child.stdout?.setEncoding('utf8').on(
    'data',
    collect((text) => (stdout += text)),
  );
  child.stderr?.setEncoding('utf8').on(
    'data',
    collect((text) => (stderr += text)),
  );
  // Not its 'close': that does not come when we closed the channel.
  const ended = Promise.all([
    new Promise<number | NodeJS.Signals>((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal ?? -1))),
    ...[child.stdout, child.stderr].map((stream) => new Promise((resolve) => stream?.on('close', resolve))),
  ]).then(([how]) => how);
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    hear: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(stdout) ?? pattern.exec(stderr);
          if (found === null) return;
          listeners.delete(look);
          resolve(found);
        };
        listeners.add(look);
        look();
        void ended.then((how) => reject(new Error(`ended (${how}) without saying ${String(pattern)}; it said:\n${stdout}${stderr}`)));
      }),
  };
}

/** Process ids of everything below a process, however deep. Needs Linux's /proc. */
export async function descendants(pid: number): Promise<number[]> {
  const { readdir, readFile } = await import('node:fs/promises');
  const parents = new Map<number, number>();
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => null); // it may have ended just now
    if (stat !== null) parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
  }
  const below: number[] = [];
  const queue = [pid];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const children = [...parents].filter(([, parent]) => parent === next).map(([child]) => child);
    below.push(...children);
    queue.push(...children);
  }
  return below;
}

/** Settles when a process that is no child of ours is gone. */
export async function gone(pid: number): Promise<void> {
  const { setTimeout: pause } = await import('node:timers/promises');
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await pause(10); // the system tells only parents of an end
  }
}
