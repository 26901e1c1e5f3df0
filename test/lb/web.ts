/** Calls to the load-balanced endpoints of a stack. */
import { join } from 'node:path';

import type { TestFn } from 'ava';
import { Agent } from 'undici';

import { answerTo, type HttpReply } from '../support/http-answer.ts';
import { Stack } from '../support/stack.ts';

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
  call(path: string, options?: CallOptions, endpoint?: string): Promise<HttpReply>;
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
async function callOn(agent: Agent, stack: Stack, endpoint: string, path: string, options: CallOptions): Promise<HttpReply> {
  const { method = 'GET', body, headers = {}, key = stack.apiKey } = options;
  const { port } = new URL(stack.url);
  return answerTo(`${stack.url}${path}`, {
    method,
    dispatcher: agent,
    headers: { host: `${endpoint}.lb.localhost:${port}`, ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...headers },
    ...(body === undefined ? {} : { body }),
  });
}
