/** A foreign worker or a user's server as a process of this host: any program, that ends with the agent. */
import { setTimeout } from 'node:timers/promises';

import { messageOf } from '../../../lib/to-error.ts';
import type { WorkerPorts } from '../../sandbox/network/worker-networks.ts';
import type { WorkerLauncher, WorkerProcess } from '../../sandbox/launcher.ts';
import { exitText } from '../process-group.ts';
import type { AccountReading } from '../account-reading.ts';
import { OutputStreams } from '../reading/output-streams.ts';
import type { LaunchedProcess, Launcher, LauncherEvents } from './launcher.ts';

/** How long the last lines of a program that is gone may take, ms: its launcher ends the output before. */
const OUTPUT_GRACE_MS = 2_000;

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
    return follow(program, events, spec.reading);
  };
}

function follow(program: WorkerProcess, events: LauncherEvents, reading: AccountReading | undefined): LaunchedProcess {
  const streams = new OutputStreams({ line: (stream, text) => events.line(stream, text), lost: (why) => program.kill(why) }, reading);
  // What creates a sandbox may complain first, which its launcher reads.
  for (const stream of ['stdout', 'stderr'] as const) streams.read(stream, program[stream], { until: program.started });
  void program.started.then(() => events.started());
  void program.gone.then(async (exit) => {
    streams.finish();
    await Promise.race([streams.ended('stdout', 'stderr'), setTimeout(OUTPUT_GRACE_MS)]);
    if (exit.kind === 'not-started') events.exited(`starting the worker process failed: ${exit.reason}`);
    else events.exited(exit.reason ?? exitText(exit.code, exit.signal), streams.isLost);
  });
  return {
    get pid() {
      return program.pid;
    },
    get vantage() {
      return program.vantage;
    },
    listens: (port) => program.listens?.(port),
    terminate: () => program.terminate(),
    kill: (reason) => program.kill(reason),
  };
}

function cannotStart(events: LauncherEvents, why: string): LaunchedProcess {
  process.nextTick(() => events.exited(`starting the worker process failed: ${why}`));
  return { pid: undefined, terminate() {}, kill() {} };
}
