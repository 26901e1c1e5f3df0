/** Calls to the load-balanced endpoints of a stack. */
import { join } from 'node:path';

import type { TestFn } from 'ava';
import { Agent, request } from 'undici';

import { Stack } from '../support/stack.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>>;
}

export interface CallOptions {
  readonly method?: string;
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null for none. */
  readonly key?: string | null;
}

export interface Web {
  stack(): Stack;
  id(name: string): string;
  /** Calls `web` by its host, or another endpoint by name. */
  call(path: string, options?: CallOptions, endpoint?: string): Promise<Answer>;
}

/** A stack with the endpoints of a folder. */
export function web(test: TestFn, folder = join(import.meta.dirname, 'app'), variables: Readonly<Record<string, string>> = {}): Web {
  let started: Stack | null = null;
  let endpoints: ReadonlyMap<string, string> = new Map();
  const agent = new Agent();
  test.before(async () => {
    started = await Stack.start(variables);
    endpoints = await started.deploy(folder);
  });
  test.after.always(async () => {
    await agent.destroy();
    await started?.close();
  });
  const stack = (): Stack => {
    if (started === null) throw new Error('the stack has not started');
    return started;
  };
  const id = (name: string): string => endpoints.get(name) ?? name;
  return {
    stack,
    id,
    call: (path, options = {}, endpoint = 'web') => callOn(agent, stack(), id(endpoint), path, options),
  };
}

/** By the Host header: a name below localhost need not be known to this machine. */
async function callOn(agent: Agent, stack: Stack, endpoint: string, path: string, options: CallOptions): Promise<Answer> {
  const { method = 'GET', body, headers = {}, key = stack.apiKey } = options;
  const { port } = new URL(stack.url);
  const answer = await request(`${stack.url}${path}`, {
    method: method as 'GET',
    dispatcher: agent,
    headers: { host: `${endpoint}.lb.localhost:${port}`, ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, headers: answer.headers, text, json: parsed(text) };
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
