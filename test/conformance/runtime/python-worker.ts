/** A Python worker of given sources. */
import type { ExecutionContext } from 'ava';
import type { WorkerStart } from '../../../agent/runtimes/runtime.ts';
import { processRuntime } from './hosts.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';
import { folderOf } from '../../support/folder.ts';

interface Made extends TestWorker {
  /** Runs a task whose input is this very text; the text of its result, or its error. */
  text(key: string, input: string): Promise<string>;
}

export async function workerOf(
  t: ExecutionContext,
  source: string | Record<string, string>,
  more: Partial<WorkerStart> & { module?: string } = {},
): Promise<Made> {
  const { module = 'main.py', ...start } = more;
  const folder = await folderOf(t, typeof source === 'string' ? { 'main.py': source } : source);
  const runtime = processRuntime();
  t.teardown(() => runtime.close());
  const functions = [{ name: 'f', module, parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' as const }];
  const worker = startWorkerOf(runtime, folder, 'f', { functions, ...start });
  await worker.hear('loaded');
  return {
    ...worker,
    text: async (key, input) => {
      worker.worker.run({ key, jobId: `job-${key}`, input: Buffer.from(input), attempt: 1, s3Config: undefined });
      const { result } = await worker.ended(key);
      return result.kind === 'returned' ? result.output.toString() : result.kind === 'failed' ? result.error : result.kind;
    },
  };
}

export function linesOf(worker: TestWorker, stream: string): string[] {
  return worker.said.items.flatMap((said) => (said.say === 'log' && said.stream === stream ? [said.text] : []));
}
