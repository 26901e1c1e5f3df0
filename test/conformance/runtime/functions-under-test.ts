/** Runs the functions of a source in a worker: as jobs, and as routes. Inputs, results and bodies are texts. */
import type { ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../../support/folder.ts';
import { answered, ask } from './http-suite.ts';
import { startWorkerOf } from './worker-under-test.ts';

type Files = Readonly<Record<string, string>>;

/** Runs a job with this input; returns the text of its result, or its error. */
export type Run = (input: string) => Promise<string>;

/** Runs jobs of the function `f` in the first file; `spec` is what a build would tell of it. */
export async function jobsOf(t: ExecutionContext, runtime: Runtime, files: Files, spec: Partial<FunctionSpec> = {}): Promise<Run> {
  const folder = await folderOf(t, { ...files });
  t.teardown(() => runtime.close());
  const worker = startWorkerOf(runtime, folder, 'f', { functions: [{ ...unread('f', files), ...spec }] });
  await worker.hear('loaded');
  let count = 0;
  return async (input) => {
    const key = String((count += 1));
    worker.worker.run({ key, jobId: `job-${key}`, input: Buffer.from(input), attempt: 1, s3Config: undefined });
    const { result } = await worker.ended(key);
    return result.kind === 'returned' ? result.output.toString() : result.kind === 'failed' ? result.error : result.kind;
  };
}

export interface Asking {
  readonly body?: string;
  readonly query?: string;
  readonly pathValues?: Readonly<Record<string, string>>;
  readonly headers?: readonly [string, string][];
}

export interface Answered {
  readonly status: number;
  readonly text: string;
  /** Of an error. */
  readonly detail: string | undefined;
}

/** Calls functions of the first file as routes. */
export async function routesOf(
  t: ExecutionContext,
  runtime: Runtime,
  files: Files,
  functions: readonly (string | FunctionSpec)[],
): Promise<(name: string, request: Asking) => Promise<Answered>> {
  const folder = await folderOf(t, { ...files });
  t.teardown(() => runtime.close());
  const specs = functions.map((each) => (typeof each === 'string' ? unread(each, files) : each));
  const worker = startWorkerOf(runtime, folder, '', { functions: specs, servesHttp: true });
  await worker.hear('loaded');
  return async (name, { body = '', query = '', pathValues = {}, headers = [] }) => {
    const request = { method: 'POST', url: `http://host.test/?${query}`, body: Buffer.from(body), pathValues, headers };
    const answer = await answered(ask(worker, name, request));
    const json = answer.json as { readonly detail?: string } | undefined;
    return { status: answer.status, text: answer.body.toString(), detail: answer.status === 200 ? undefined : json?.detail };
  };
}

function unread(name: string, files: Files): FunctionSpec {
  return { name, module: Object.keys(files)[0] ?? '', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' };
}
