/** One job ends a worker that others run on: they complete, and it alone ends FAILED (invariant 6). */
import { join } from 'node:path';

import test from 'ava';

import { Stack } from '../support/stack.ts';

let stack: Stack;
let endpoints: ReadonlyMap<string, string>;

test.before(async (t) => {
  t.timeout(120_000);
  stack = await Stack.start();
  endpoints = await stack.deploy(join(import.meta.dirname, 'neighbours-app'));
});

test.after.always(async () => {
  await stack?.close();
});

for (const name of ['coroutine', 'thread-py', 'node', 'thread-js']) {
  test(`${name}: a job that ends its worker ends alone, after its attempts`, async (t) => {
    t.timeout(120_000);
    const endpoint = endpoints.get(name) ?? '';
    for (const [how, error] of [
      ['exits', /code 1 \(attempt 2 of 2\)$/],
      ['is killed', /SIGKILL \(attempt 2 of 2\)$/],
    ] as const) {
      const jobs = await Promise.all([0, 1, 2].map((n) => stack.run(endpoint, { n, how })));
      const [culprit, ...others] = await Promise.all(jobs.map((job) => stack.ended(endpoint, job, 60_000)));
      t.is(culprit?.status, 'FAILED', how);
      t.regex(culprit?.error ?? '', error);
      t.is(culprit?.retries, 1, `${how}: it runs maxAttempts (2) times, whether or not the host knows that it was this one`);
      for (const [index, other] of others.entries()) {
        // How often it was entered is told to the handler and to the caller alike.
        t.like(other, { status: 'COMPLETED', output: [index + 1, (other.retries ?? 0) + 1] }, how);
      }
    }
    t.is((await stack.health(endpoint)).workers.unhealthy, 0);
  });
}
