/** Programs of a release at level `user`: shell scripts, started by the launcher itself. */
import { once } from 'node:events';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import type { WorkerExit, WorkerProcess } from '../../agent/sandbox/launcher.ts';
import { folderOf } from '../support/folder.ts';
import { HOST_ENV, type UserLevel } from './user-level.ts';

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Files of the build: path to text. */
  readonly build?: Readonly<Record<string, string>>;
}

export interface TestProgram {
  readonly process: WorkerProcess;
  /** The lines of its output so far, errors included. */
  readonly lines: readonly string[];
  /** Resolves once it has printed the line. */
  printed(line: string): Promise<void>;
}

let workers = 0;

/** Starts `/bin/sh -c script` as a worker with a build. It is killed with the test. */
export async function start(
  t: ExecutionContext,
  { launcher }: UserLevel,
  script: string,
  options: ProgramOptions = {},
): Promise<TestProgram> {
  const { env = {}, build = { 'main.sh': '' } } = options;
  const folder = await folderOf(t, build);
  const workerId = `worker-${(workers += 1)}`;
  // The launcher uses its name alone.
  const workFolder = join('/data/work', `w-${process.pid}-${workers}`);
  const program = launcher.launch({
    kind: 'program',
    command: '/bin/sh',
    args: ['-c', script],
    env: { ...HOST_ENV, ...env },
    assignment: { workerId, folder, workFolder, deviceUuids: [], memoryBytes: 0, cpuMillis: 0 },
  });
  t.teardown(async () => {
    program.kill();
    await program.gone;
  });
  const lines: string[] = [];
  const news = new EventTarget();
  for (const stream of [program.stdout, program.stderr]) {
    let rest = '';
    stream?.on('data', (data: Buffer) => {
      const parts = `${rest}${data.toString()}`.split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts);
      news.dispatchEvent(new Event('line'));
    });
  }
  const printed = async (line: string): Promise<void> => {
    while (!lines.includes(line)) await once(news, 'line');
  };
  return { process: program, lines, printed };
}

/** Runs it to its end and returns what it printed. */
export async function run(
  t: ExecutionContext,
  level: UserLevel,
  script: string,
  options?: ProgramOptions,
): Promise<{ readonly lines: readonly string[]; readonly exit: WorkerExit }> {
  const program = await start(t, level, script, options);
  const ended = [program.process.stdout, program.process.stderr].map(async (stream) => {
    if (stream !== undefined) await once(stream, 'close');
  });
  const exit = await program.process.gone;
  await Promise.all(ended);
  return { lines: program.lines, exit };
}
