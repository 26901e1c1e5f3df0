/** What one job does to the others on its worker, in containers of both languages and in gVisor. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { lacking, noEngine, startEngine, type PrivateEngine } from '../../support/container/private-engine.ts';
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
  const inGvisor = (t: ExecutionContext): Promise<Runtime> => containerRuntime(t, engine.socket, { rules });
  neighbours('gVisor', inGvisor, blocking.python[0]);
  attemptProcessesInside('gVisor/node', inGvisor, leavesProcesses.javascript);
  attemptProcessesInside('gVisor/python', inGvisor, leavesProcesses.python);
} else {
  test.skip(`gVisor: skipped, an engine with it ${noGvisor}`, (t) => t.pass());
}
