/** One worker of a runtime, with everything it says kept as signals. */
import { FIRST_CREDITS, type RunningWorker, type Runtime, type TaskResult, type WorkerStart } from '../../../agent/runtimes/runtime.ts';
import type { S3Config } from '../../../proto/gen/capstan/v1/common.ts';
import { Signals } from '../../agent/signals.ts';
import { readers } from './hosts.ts';

/** A container's start is a dozen programs: on a busy machine they take their time. */
const PATIENCE_MS = 90_000;

export type Said =
  | { readonly say: 'waiting'; readonly detail: string }
  | { readonly say: 'preparing'; readonly reason: string; readonly detail: string }
  | { readonly say: 'start-failed'; readonly reason: string; readonly detail: string }
  | { readonly say: 'started' }
  | { readonly say: 'loaded' }
  | { readonly say: 'reloading' }
  | { readonly say: 'reachable'; readonly is: boolean }
  | { readonly say: 'violation'; readonly detail: string }
  | { readonly say: 'load-failed'; readonly detail: string }
  | { readonly say: 'entered'; readonly key: string }
  | { readonly say: 'chunk'; readonly key: string; readonly value: unknown }
  | { readonly say: 'progress'; readonly key: string; readonly value: unknown }
  | { readonly say: 'ended'; readonly key: string; readonly result: TaskResult; readonly value: unknown }
  | { readonly say: 'log'; readonly stream: string; readonly jobId: string; readonly text: string }
  | {
      readonly say: 'exited';
      readonly detail: string;
      readonly hardStop: boolean;
      readonly culprit: string | undefined;
      readonly isUnread: boolean;
    };

export interface TestWorker {
  readonly worker: RunningWorker;
  readonly said: Signals<Said>;
  run(key: string, input: unknown, more?: { attempt?: number; s3Config?: S3Config; trace?: string }): void;
  ended(key: string): Promise<{ readonly result: TaskResult; readonly value: unknown }>;
  /** Runs a task to its end; chunks are credited as they come. */
  call(key: string, input?: unknown): Promise<{ readonly result: TaskResult; readonly value: unknown }>;
  hear<S extends Said['say']>(
    say: S,
    fits?: (said: Extract<Said, { say: S }>) => boolean,
    from?: number,
  ): Promise<Extract<Said, { say: S }>>;
}

export function startWorkerOf(runtime: Runtime, folder: string, fn: string, more: Partial<WorkerStart> = {}): TestWorker {
  const said = new Signals<Said>(PATIENCE_MS);
  const worker = runtime.start(
    {
      workerId: 'worker-1',
      endpointId: 'endpoint-1',
      folder,
      workFolder: '',
      functions: [{ name: fn, module: 'main', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
      env: {},
      deviceUuids: [],
      maxConcurrency: 1,
      memoryBytes: 0,
      cpuMillis: 0,
      image: '',
      command: [],
      reading: readers.of('account-1'),
      ...more,
    },
    {
      preparing: (reason, detail) => said.push({ say: 'preparing', reason, detail }),
      waiting: (detail) => said.push({ say: 'waiting', detail }),
      startFailed: (reason, detail) => said.push({ say: 'start-failed', reason, detail }),
      started: () => said.push({ say: 'started' }),
      loaded: () => said.push({ say: 'loaded' }),
      loadFailed: (detail) => said.push({ say: 'load-failed', detail }),
      entered: (key) => said.push({ say: 'entered', key }),
      chunk: (key, data) => {
        said.push({ say: 'chunk', key, value: JSON.parse(data.toString()) });
        worker.credit(key, 1);
      },
      progress: (key, data) => said.push({ say: 'progress', key, value: JSON.parse(data.toString()) }),
      ended: (key, result) =>
        said.push({ say: 'ended', key, result, value: result.kind === 'returned' ? JSON.parse(result.output.toString()) : undefined }),
      reloading: () => said.push({ say: 'reloading' }),
      reachable: (is) => said.push({ say: 'reachable', is }),
      violation: (detail) => said.push({ say: 'violation', detail }),
      log: ({ stream, jobId, text }) => said.push({ say: 'log', stream, jobId, text }),
      exited: (detail, hardStop, culprit, isUnread = false) => said.push({ say: 'exited', detail, hardStop, culprit, isUnread }),
    },
  );
  const run: TestWorker['run'] = (key, input, values = {}) => {
    worker.run({ key, jobId: `job-${key}`, input: Buffer.from(JSON.stringify(input)), attempt: 1, s3Config: undefined, ...values });
  };
  const hear = async <S extends Said['say']>(say: S, fits: (value: Extract<Said, { say: S }>) => boolean = () => true, from = 0) => {
    const isIt = (item: Said): item is Extract<Said, { say: S }> => item.say === say && fits(item as Extract<Said, { say: S }>);
    // Nothing comes after the end: who waits for something else learns it at once.
    const found = await said.next((item) => isIt(item) || item.say === 'exited', from);
    if (!isIt(found)) throw new Error(`the worker ended before it said \`${say}\`: ${JSON.stringify(said.items)}`);
    return found;
  };
  const ended = (key: string) => hear('ended', (value) => value.key === key);
  return {
    worker,
    said,
    run,
    ended,
    hear,
    call: async (key, input = {}) => {
      run(key, input);
      return ended(key);
    },
  };
}

/** Chunks a worker may send before it must wait for credit. */
export const WINDOW = FIRST_CREDITS;
