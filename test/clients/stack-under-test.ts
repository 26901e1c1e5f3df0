/** One stack with the clients' application for all tests of a file. */
import { join } from 'node:path';

import type { TestFn } from 'ava';

import { Stack } from '../support/stack.ts';

export interface UnderTest {
  readonly stack: Stack;
  /** Id of an endpoint of test/clients/app. */
  endpoint(name: 'echo' | 'slow' | 'failing' | 'words' | 'llm' | 'parked' | 'limited'): string;
}

/** Starts it before the file's tests; what is returned may be used inside them. */
export function stackUnderTest(test: TestFn, variables: Readonly<Record<string, string>> = {}): UnderTest {
  let stack: Stack | null = null;
  let endpoints: ReadonlyMap<string, string> = new Map();
  test.before(async () => {
    stack = await Stack.start(variables);
    endpoints = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => stack?.close());
  return {
    get stack() {
      if (stack === null) throw new Error('the stack has not started');
      return stack;
    },
    endpoint(name) {
      const id = endpoints.get(name);
      if (id === undefined) throw new Error(`endpoint ${name} does not exist`);
      return id;
    },
  };
}
