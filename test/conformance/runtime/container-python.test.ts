import test from 'ava';

import { noEngine, startEngine, type PrivateEngine } from '../../support/container/private-engine.ts';
import { attemptProcessesConformance, leavesProcesses } from './attempt-processes-suite.ts';
import { containerRuntime } from './container-under-test.ts';
import { pythonHttp } from './functions-http.ts';
import { httpConformance, serverConformance } from './http-suite.ts';
import { python } from './languages.ts';
import { runtimeConformance } from './suite.ts';

let engine: PrivateEngine;

if (noEngine === undefined) {
  test.before(async () => {
    engine = await startEngine(['capstan/base-python', 'capstan/base-python-cuda']);
  });
  test.after.always(() => engine.stop());
  // The host is the one of process/python; each container costs the machine much.
  httpConformance('container/python', (t) => containerRuntime(t, engine.socket), pythonHttp);
  // This engine has no network of its own: the container is in the host's.
  serverConformance('container', (t) => containerRuntime(t, engine.socket), {
    image: 'capstan/base-python',
    command: ['python3', '/capstan/build/server.py'],
  });
  const leaves = { build: leavesProcesses.python, fn: 'start' };
  attemptProcessesConformance('container/python', (t) => containerRuntime(t, engine.socket), leaves);
  runtimeConformance('container/python', (t) => containerRuntime(t, engine.socket), python, { atOnce: 3, withoutHost: true });
} else {
  test.skip(`container/python: skipped, a container engine of its own ${noEngine}`, (t) => t.pass());
}
