/** Handlers that append what they do to a file outside the service, and return what names the execution that made it. */
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

interface Context {
  readonly jobId: string;
  readonly attempt: number;
  readonly signal: AbortSignal;
}

type Made = { readonly execution: string; readonly input: string; readonly index?: number; readonly pad: string };

/** Takes `ms` ms, then returns, or fails with the probability `failing`. `bytes` is the size of the output's padding. */
export async function work(input: string, record: string, ms: number, failing: number, bytes: number, context: Context): Promise<Made> {
  const execution = enter(record, input, context);
  await waitOrStop(record, execution, ms, context);
  if (Math.random() < failing) fail(record, execution);
  append(record, { kind: 'exit', execution, how: 'returned' });
  return { execution, input, pad: padding(input, bytes) };
}

/** `work`, for the endpoint that starts its jobs in order. */
export async function line(input: string, record: string, ms: number, failing: number, bytes: number, context: Context): Promise<Made> {
  return work(input, record, ms, failing, bytes, context);
}

/** `work`, for the endpoint whose queue is purged. */
export async function purged(input: string, record: string, ms: number, failing: number, bytes: number, context: Context): Promise<Made> {
  return work(input, record, ms, failing, bytes, context);
}

/** Yields `count` chunks, `ms` ms apart; fails before each with the probability `failing`. */
export async function* series(
  input: string,
  record: string,
  ms: number,
  failing: number,
  bytes: number,
  count: number,
  context: Context,
): AsyncGenerator<Made> {
  const execution = enter(record, input, context);
  for (let index = 0; index < count; index += 1) {
    if (Math.random() < failing) fail(record, execution);
    append(record, { kind: 'chunk', execution, index });
    yield { execution, input, index, pad: padding(input, bytes) };
    await waitOrStop(record, execution, ms, context);
  }
  append(record, { kind: 'exit', execution, how: 'returned' });
}

/** Serves the route that a soak calls. */
export function echo(text: string): { readonly text: string } {
  return { text };
}

function enter(record: string, input: string, { jobId, attempt }: Context): string {
  const execution = randomUUID();
  append(record, { kind: 'enter', execution, job: jobId, input, attempt, pid: process.pid });
  console.log(`${execution} enters`);
  return execution;
}

async function waitOrStop(record: string, execution: string, ms: number, { signal }: Context): Promise<void> {
  try {
    await pause(ms, undefined, { signal });
  } catch (error) {
    append(record, { kind: 'exit', execution, how: 'stopped' });
    throw error;
  }
}

function fail(record: string, execution: string): never {
  append(record, { kind: 'exit', execution, how: 'failed' });
  throw new Error(`fails on purpose in ${execution}`);
}

/** The same bytes for the same input, so that bytes of another job are noticed. */
function padding(input: string, bytes: number): string {
  return `${input} `.repeat(Math.ceil(bytes / (input.length + 1))).slice(0, bytes);
}

/** One write a line: appended whole, also beside other workers and right before a SIGKILL. */
function append(record: string, line: object): void {
  appendFileSync(record, `${JSON.stringify({ at: Number(process.hrtime.bigint() / 1_000n) / 1_000, ...line })}\n`);
}
