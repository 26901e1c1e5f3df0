/**
 * The contract suite: every documented row of the HTTP API as a test over real
 * HTTP against a whole stack. A row's title begins with its source.
 */
import { join } from 'node:path';

import type { ExecutionContext, TestFn } from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; an empty object when it is no JSON. */
  readonly json: Readonly<Record<string, unknown>>;
}

export interface CallOptions {
  /** Sent as it is when a text, else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null for none. */
  readonly authorization?: string | null;
}

export interface Contract {
  readonly stack: Stack;
  /** Id of an endpoint of test/contract/app. */
  id(name: string): string;
  /** `call('POST', '/v2/:echo/run', …)`: the name after the colon stands for the endpoint's id. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Submits to /run; the job's id. */
  run(name: string, input?: object, more?: object): Promise<string>;
  /** Waits by long polls until the job is as wanted (or not there any more); the last answer. */
  until(name: string, job: string, wanted: (answer: Answer) => boolean): Promise<Answer>;
  /** Waits until the job has ended. */
  ended(name: string, job: string): Promise<Answer>;
  /** Waits until the job is IN_PROGRESS. */
  running(name: string, job: string): Promise<Answer>;
}

export const TERMINAL: ReadonlySet<unknown> = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

/** Longest a row waits for anything, ms; beyond it the stack is broken. */
const PATIENCE_MS = 60_000;

/** Of the file's stack, which its modules share. */
let deployed: Promise<ReadonlyMap<string, string>> | null = null;

/** Starts a stack for the file's rows. */
export function contract(test: TestFn, variables: Readonly<Record<string, string>> = {}): Contract {
  const start = sharedStack(test, variables);
  let started: Stack | null = null;
  let endpoints: ReadonlyMap<string, string> = new Map();
  test.before(async () => {
    started = await start();
    deployed ??= started.deploy(join(import.meta.dirname, 'app'));
    endpoints = await deployed;
  });

  function stack(): Stack {
    if (started === null) throw new Error('the stack has not started');
    return started;
  }

  function id(name: string): string {
    const found = endpoints.get(name);
    if (found === undefined) throw new Error(`endpoint ${name} does not exist`);
    return found;
  }

  async function call(method: string, path: string, { body, headers = {}, authorization }: CallOptions = {}): Promise<Answer> {
    const key = authorization === undefined ? `Bearer ${stack().apiKey}` : authorization;
    const response = await fetch(`${stack().url}${path.replace(/:([a-z-]+)/, (_all, name: string) => id(name))}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parsed(text) };
  }

  async function until(name: string, job: string, wanted: (answer: Answer) => boolean): Promise<Answer> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const answer = await call('GET', `/v2/:${name}/status-sync/${job}?wait=1000`);
      if (wanted(answer)) return answer;
      if (performance.now() > deadline) throw new Error(`waited in vain for ${job}: ${answer.text}`);
    }
  }

  return {
    get stack() {
      return stack();
    },
    id,
    call,
    until,
    async run(name, input = {}, more = {}) {
      const { status, json, text } = await call('POST', `/v2/:${name}/run`, { body: { input, ...more } });
      if (status !== 200) throw new Error(`/run answered ${status}: ${text}`);
      return String(json['id']);
    },
    ended: async (name, job) => until(name, job, ({ json, status }) => status !== 200 || TERMINAL.has(json['status'])),
    async running(name, job) {
      const deadline = performance.now() + PATIENCE_MS;
      for (;;) {
        const answer = await call('GET', `/v2/:${name}/status/${job}`);
        // The handler has said something: it was entered.
        if (answer.json['status'] === 'IN_PROGRESS' && answer.json['output'] !== undefined) return answer;
        if (performance.now() > deadline || TERMINAL.has(answer.json['status'])) throw new Error(`not running: ${answer.text}`);
      }
    },
  };
}

/** A problem document. */
export function isProblem(t: ExecutionContext, answer: Answer, status: number, detail: RegExp): void {
  t.is(answer.status, status, answer.text);
  t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8');
  t.deepEqual(Object.keys(answer.json), ['status', 'title', 'detail']);
  t.is(answer.json['status'], status);
  t.regex(String(answer.json['detail']), detail);
  t.true(String(answer.json['detail']).startsWith(`${String(answer.json['title']).toLowerCase()}: `));
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
