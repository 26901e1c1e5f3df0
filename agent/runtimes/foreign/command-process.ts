/** A foreign worker or a user's server as a process of this host: any program, that ends with the agent. */
import type { Readable } from 'node:stream';

import { messageOf } from '../../../lib/to-error.ts';
import type { WorkerPorts } from '../../sandbox/network/worker-networks.ts';
import type { WorkerLauncher, WorkerProcess } from '../../sandbox/launcher.ts';
import { exitText } from '../process-group.ts';
import { WorkerOutput } from '../worker-output.ts';
import { WorkerStreams } from '../worker-streams.ts';
import type { LaunchedProcess, Launcher, LauncherEvents } from './launcher.ts';

/**
 * Returns what runs a release's command in the worker's own working folder, which contains the build, if any.
 * @param portsOf - what a worker with a network of its own needs of this host, by its environment
 */
export function launchInProcess(launcher: WorkerLauncher, portsOf: (env: Readonly<Record<string, string>>) => WorkerPorts): Launcher {
  return (spec, env, events) => {
    const [command, ...args] = spec.command;
    if (command === undefined) return cannotStart(events, 'the release has no command');
    let program: WorkerProcess;
    try {
      program = launcher.launch({ kind: 'program', command, args, env, assignment: spec, ports: portsOf(env) });
    } catch (error) {
      return cannotStart(events, messageOf(error));
    }
    return follow(program, events, new WorkerStreams(spec.reading));
  };
}

function follow(program: WorkerProcess, events: LauncherEvents, streams: WorkerStreams): LaunchedProcess {
  const output = new WorkerOutput((stream, text) => events.line(stream, text));
  const ends = (['stdout', 'stderr'] as const).map((stream) => readTo(program[stream], output, { stream, streams }));
  void program.started.then(() => events.started());
  void program.gone.then(async (exit) => {
    streams.finish();
    await Promise.all(ends);
    if (exit.kind === 'not-started') events.exited(`starting the worker process failed: ${exit.reason}`);
    else events.exited(exit.reason ?? exitText(exit.code, exit.signal));
  });
  return {
    get pid() {
      return program.pid;
    },
    listens: (port) => program.listens?.(port),
    terminate: () => program.terminate(),
    kill: (reason) => program.kill(reason),
  };
}

interface ReadOptions {
  readonly stream: 'stdout' | 'stderr';
  readonly streams: WorkerStreams;
}

/** Resolves when the stream is closed. */
function readTo(source: Readable | undefined, output: WorkerOutput, { stream, streams }: ReadOptions): Promise<void> {
  if (source === undefined) return Promise.resolve();
  streams.read(source, (data) => output.push(stream, data));
  source.on('end', () => output.end(stream));
  return new Promise((resolve) => source.once('close', resolve));
}

function cannotStart(events: LauncherEvents, why: string): LaunchedProcess {
  process.nextTick(() => events.exited(`starting the worker process failed: ${why}`));
  return { pid: undefined, terminate() {}, kill() {} };
}
