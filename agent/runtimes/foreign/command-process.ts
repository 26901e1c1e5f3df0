/** A foreign worker as a process of this host: any program, in its own process group, that ends with the agent. */
import { spawn } from 'node:child_process';
import type { Stream } from 'node:stream';

import { messageOf } from '../../../lib/to-error.ts';
import { AGENT_MARK, killEscaped } from '../escaped.ts';
import { LEASH_FD, withLeash } from '../leash.ts';
import { WorkerOutput } from '../worker-output.ts';
import { limitMemory } from '../memory-limit.ts';
import { exitText, endGroup, killGroup } from '../process-group.ts';
import type { WorkerStart } from '../runtime.ts';
import { workFolderFor } from '../work-folders.ts';
import { withBuild } from './command-line.ts';
import type { LaunchedProcess, LauncherEvents } from './launcher.ts';

const OUTPUT_GRACE_MS = 1_000;

/** Runs the release's command in the worker's own working folder, which contains the build, if any. */
export function launchInProcess(spec: WorkerStart, env: Readonly<Record<string, string>>, events: LauncherEvents): LaunchedProcess {
  const { workerId, command, memoryBytes } = spec;
  const [program, ...args] = command;
  if (program === undefined) return cannotStart(events, 'the release has no command');
  const [shell, line] = withLeash(program, args);
  let child: ReturnType<typeof spawn>;
  try {
    const cwd = workFolderFor(spec);
    child = spawn(shell, line, { detached: true, env: withBuild(env, spec), cwd, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
  } catch (error) {
    return cannotStart(events, messageOf(error));
  }
  const { pid } = child;
  if (pid === undefined) {
    child.once('error', (error) => events.exited(`starting the worker process failed: ${error.message}`));
    return { pid: undefined, terminate() {}, kill() {} };
  }
  let gone = false;
  let killedFor: string | undefined;
  const kill = (why: string): void => {
    if (gone) return;
    killedFor ??= why;
    killGroup(pid);
  };
  const output = new WorkerOutput((stream, text) => events.line(stream, text));
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.on('data', (data: Buffer) => output.push(stream, data)).on('end', () => output.end(stream));
  }
  const leash = (child.stdio as readonly (Stream | null | undefined)[])[LEASH_FD];
  // No data is ever sent here.
  leash?.on('error', () => undefined);
  child.once('error', () => undefined);
  child.once('spawn', () => events.started());
  const endWatch = limitMemory(pid, memoryBytes, kill);
  child.once('exit', (code, signal) => {
    endWatch();
    const closed = new Promise((resolve) => child.once('close', resolve));
    const timer = setTimeout(() => {
      // Processes that escaped the group may hold the pipes open forever.
      child.stdout?.destroy();
      child.stderr?.destroy();
    }, OUTPUT_GRACE_MS);
    void endGroup(pid)
      .then(() => killEscaped({ agent: env[AGENT_MARK], workerId, workFolder: spec.workFolder }))
      .then(() => closed)
      .then(() => {
        clearTimeout(timer);
        gone = true;
        events.exited(killedFor ?? exitText(code, signal));
      });
  });
  return {
    pid,
    terminate: () => {
      if (!gone) child.kill('SIGTERM');
    },
    kill,
  };
}

function cannotStart(events: LauncherEvents, why: string): LaunchedProcess {
  process.nextTick(() => events.exited(`starting the worker process failed: ${why}`));
  return { pid: undefined, terminate() {}, kill() {} };
}
