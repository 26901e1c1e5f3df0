/** Every runtime on the host keeps its promises inside a sandbox, too. */
import test from 'ava';

import { attemptProcessesConformance, leavesProcesses } from '../conformance/runtime/attempt-processes-suite.ts';
import { processRuntime, shared, threadRuntime } from '../conformance/runtime/hosts.ts';
import { python } from '../conformance/runtime/languages.ts';
import { blocking, recallConformance } from '../conformance/runtime/recall-suite.ts';
import { runtimeConformance } from '../conformance/runtime/suite.ts';
import { sandboxForFile } from '../support/sandbox.ts';

const { launcher, reason } = await sandboxForFile();

if (launcher === undefined) test.skip(`sandboxes: skipped, ${reason}`, (t) => t.pass());
else {
  runtimeConformance('sandbox/thread', shared(threadRuntime(1, launcher)), undefined, { atOnce: 4 });
  runtimeConformance('sandbox/node', shared(processRuntime({ node: 1 }, 'python3', launcher)), undefined, { atOnce: 4 });
  runtimeConformance('sandbox/python', shared(processRuntime({ python: 1 }, 'python3', launcher)), python, { atOnce: 4 });
  for (const [name, runtime, fn] of [
    ['thread', threadRuntime(1, launcher), { build: leavesProcesses.javascript, fn: 'start' }],
    ['node', processRuntime({ node: 1 }, 'python3', launcher), { build: leavesProcesses.javascript, fn: 'start' }],
    ['python', processRuntime({ python: 1 }, 'python3', launcher), { build: leavesProcesses.python, fn: 'start' }],
  ] as const)
    attemptProcessesConformance(`sandbox/${name}`, shared(runtime), fn);
  recallConformance('sandbox/node', shared(processRuntime({ node: 1 }, 'python3', launcher)), blocking.javascript);
  recallConformance('sandbox/python', shared(processRuntime({ python: 1 }, 'python3', launcher)), blocking.python.slice(0, 2));
}
