/** One stack for all cases of a test file: those in modules that the file imports share it. A start takes seconds of processor time. */
import type { TestFn } from 'ava';

import { Stack } from './stack.ts';

/** The endpoints of all cases count towards one account's quota. */
const ROOM = { CAPSTAN_WORKER_QUOTA: '200' };

/** Of this test file, which has a thread of its own; null until a module of it wants one. */
let shared: { readonly variables: string; readonly stack: Promise<Stack> } | null = null;

/** Starts the stack before the file's tests, once, and closes it after them. */
export function sharedStack(test: TestFn, variables: Readonly<Record<string, string>> = {}): () => Promise<Stack> {
  const wanted = JSON.stringify(variables);
  test.before(async () => {
    shared ??= { variables: wanted, stack: Stack.start({ ...ROOM, ...variables }) };
    if (shared.variables !== wanted) throw new Error(`the file's stack has the variables ${shared.variables}, not ${wanted}`);
    await shared.stack;
  });
  test.after.always(async () => {
    const own = shared;
    shared = null;
    await (await own?.stack)?.close();
  });
  return () => {
    if (shared === null) throw new Error('the stack starts before the tests');
    return shared.stack;
  };
}
