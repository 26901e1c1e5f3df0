/** What one job does to the others on its worker, in containers of both languages and in gVisor. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { InnerProcesses } from '../../../agent/runtimes/container/inner-processes.ts';
import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { lacking, noEngine, startEngine, type PrivateEngine } from '../../support/container/private-engine.ts';
import { until } from '../../support/until.ts';
import {
  attemptProcessesConformance,
  attemptProcessesInside,
  leavesProcesses,
  requestProcessesConformance,
} from './attempt-processes-suite.ts';
import { containerRuntime } from './container-under-test.ts';
import { culpritConformance, ending } from './culprit-suite.ts';
import { blocking, recallConformance, type BlockingFunction } from './recall-suite.ts';

const IMAGES = ['capstan/base-node', 'capstan/base-node-cuda', 'capstan/base-python', 'capstan/base-python-cuda'];
const runsc = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'runsc'))
  .find((path) => existsSync(path));
const noGvisor = noEngine ?? lacking(['runsc']);

/** A program that has started something, and starts more when its job begins. */
const PROGRAM = `
import os, subprocess, time
subprocess.Popen(["sleep", "301"])
while not os.path.exists("/tmp/job"): time.sleep(0.05)
subprocess.Popen(["sh", "-c", "sleep 302 &"])
subprocess.Popen(["sleep", "303"])
time.sleep(300)
`;
const SLEEPERS = `
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: command = open(f"/proc/{pid}/cmdline").read().split("\\0")
    except OSError: continue
    if command[0] == "sleep": print(command[1])
`;

let engine: PrivateEngine;

function neighbours(name: string, makeRuntime: (t: ExecutionContext) => Promise<Runtime>, blocked: BlockingFunction): void {
  recallConformance(`${name}/node`, makeRuntime, blocking.javascript);
  recallConformance(`${name}/python`, makeRuntime, [blocked]);
  const inNode = { ...ending.javascript, known: ['process.exit'] };
  const inPython = { ...ending.coroutine, known: ['sys.exit'] };
  culpritConformance(`${name}/node`, makeRuntime, inNode);
  culpritConformance(`${name}/python`, makeRuntime, inPython);
}

if (noEngine === undefined) {
  test.before(async () => {
    // No network in gVisor: older versions cannot make one on newer kernels.
    const strong = { path: runsc, runtimeArgs: ['--host-uds=open', '--network=none'] };
    engine = await startEngine(IMAGES, noGvisor === undefined ? { runtimes: { strong } } : {});
  });
  test.after.always(() => engine.stop());
  const inContainer = (t: ExecutionContext): Promise<Runtime> => containerRuntime(t, engine.socket);
  neighbours('container', inContainer, blocking.python[1]);
  attemptProcessesConformance('container/node', inContainer, { build: leavesProcesses.javascript, fn: 'start' });
  requestProcessesConformance('container/python', inContainer, leavesProcesses.python);
} else {
  test.skip(`container: skipped, a container engine of its own ${noEngine}`, (t) => t.pass());
}

if (noGvisor === undefined) {
  const rules = { gpus: 'environment', pids: 512, tmpBytes: 64 * 1024 * 1024, shmBytes: 64 * 1024 * 1024, runtime: 'strong' } as const;
  // It opens no FIFO of the host.
  test('gVisor: what a program started since a moment ends, and what it started before stays', async (t) => {
    const options = ['--detach', '--runtime', 'strong', '--network', 'none', '--entrypoint', 'python3'];
    const id = await engine.docker('run', ...options, 'capstan/base-python', '-c', PROGRAM);
    t.teardown(() => engine.docker('rm', '-f', id));
    const inside = async (...command: string[]): Promise<string> => engine.docker('exec', id, ...command);
    const processes = new InnerProcesses(async (command) => ({ exitCode: 0, output: await inside(...command) }));
    const sleepers = async (): Promise<string[]> => (await inside('python3', '-c', SLEEPERS)).split('\n').toSorted();
    await until('the program has started its daemon', async () => (await sleepers()).includes('301'));
    t.is(processes.begin(), undefined, 'the clock is not known');
    await processes.readClock();
    const job = processes.begin();
    await inside('python3', '-c', 'open("/tmp/job", "w")');
    await until('the job has started its processes', async () => (await sleepers()).length === 3);
    await job?.end();
    t.deepEqual(await sleepers(), ['301']);
    t.is(await engine.docker('inspect', '--format', '{{.State.Running}}', id), 'true');
  });
  const inGvisor = (t: ExecutionContext): Promise<Runtime> => containerRuntime(t, engine.socket, { rules });
  neighbours('gVisor', inGvisor, blocking.python[0]);
  attemptProcessesInside('gVisor/node', inGvisor, leavesProcesses.javascript);
  attemptProcessesInside('gVisor/python', inGvisor, leavesProcesses.python);
} else {
  test.skip(`gVisor: skipped, an engine with it ${noGvisor}`, (t) => t.pass());
}
