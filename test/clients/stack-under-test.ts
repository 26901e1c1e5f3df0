/** A stack with the clients' application for all tests of a file. */
import { join } from 'node:path';

import type { TestFn } from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

export interface UnderTest {
  readonly stack: Stack;
  /** Id of an endpoint of test/clients/app. */
  endpoint(name: 'echo' | 'slow' | 'failing' | 'words' | 'llm' | 'parked' | 'limited'): string;
}

/** Of the file's stack, which its modules share. */
let deployed: Promise<ReadonlyMap<string, string>> | null = null;

/** Starts it before the file's tests; what is returned may be used inside them. */
export function stackUnderTest(test: TestFn): UnderTest {
  const start = sharedStack(test);
  let stack: Stack | null = null;
  let endpoints: ReadonlyMap<string, string> = new Map();
  test.before(async () => {
    stack = await start();
    deployed ??= stack.deploy(join(import.meta.dirname, 'app'));
    endpoints = await deployed;
  });
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
