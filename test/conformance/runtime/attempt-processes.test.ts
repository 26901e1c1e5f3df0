/** Processes that attempts leave behind, on hosts without isolation. */
import { randomUUID } from 'node:crypto';

import test from 'ava';

import { folderOf } from '../../support/folder.ts';
import { processesOf } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import {
  attemptProcessesConformance,
  leavesProcesses,
  queuedRequestConformance,
  requestProcessesConformance,
} from './attempt-processes-suite.ts';
import { processRuntime, shared, threadRuntime } from './hosts.ts';
import { startWorkerOf } from './worker-under-test.ts';

const { javascript, python } = leavesProcesses;

attemptProcessesConformance('thread', shared(threadRuntime()), { build: javascript, fn: 'start' });
attemptProcessesConformance('thread, stopped by force', shared(threadRuntime()), { build: javascript, fn: 'deaf' });
attemptProcessesConformance('process/node', shared(processRuntime()), { build: javascript, fn: 'start' });
attemptProcessesConformance('process/python', shared(processRuntime()), { build: python, fn: 'start' });
attemptProcessesConformance('process/python, async', shared(processRuntime()), { build: python, fn: 'start_async' });

requestProcessesConformance('thread', shared(threadRuntime()), javascript);
requestProcessesConformance('process/node', shared(processRuntime()), javascript);
requestProcessesConformance('process/python', shared(processRuntime()), python);
queuedRequestConformance('process/python', shared(processRuntime()));

test('a worker of several attempts at a time leaves their processes alone', async (t) => {
  const mark = randomUUID();
  const made = processRuntime();
  t.teardown(() => made.close());
  const options = { env: { CAPSTAN_TEST_MARK: mark }, maxConcurrency: 2, workFolder: await folderOf(t) };
  const worker = startWorkerOf(made, await folderOf(t, javascript), 'start', options);
  await worker.hear('loaded');
  for (const key of ['1', '2']) worker.run(key, { stays: false });
  const count = (): number => processesOf(`CAPSTAN_TEST_MARK=${mark}`).filter(({ command }) => command.startsWith('sleep 304')).length;
  await until('both attempts have started their processes', () => count() === 2);
  worker.worker.cancel('1');
  await worker.ended('1');
  t.is(count(), 2);
});
