/** Waiting for the releases of a deployment. */
import test from 'ava';

import { waitUntilReady } from '../../cli/deploy/readiness.ts';
import { CapstanError } from '../../lib/errors.ts';

test('the first error ends the waiting for all endpoints', async (t) => {
  const asked: string[] = [];
  const start = async (id: string): Promise<never> => {
    asked.push(id);
    if (id === 'revoked') throw new CapstanError('UNAUTHENTICATED', 'the key was revoked');
    return { release: 'r', phase: 'STARTING', node: null, detail: null, failures: 0, lastError: null } as never;
  };
  const endpoints = ['starting', 'revoked'].map((id) => ({ id, name: id, releaseId: 'r' }));
  const terminal = { step: () => undefined, done: () => undefined, warn: () => undefined };
  await t.throwsAsync(waitUntilReady(endpoints, { start, terminal, timeoutMs: 60_000, pollMs: 5 }), { message: 'the key was revoked' });
  const polls = asked.length;
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.is(asked.length, polls, 'nobody asks any longer');
});
