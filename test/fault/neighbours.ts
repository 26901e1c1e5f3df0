/** One job or request ends a worker that others run on: they complete, and it alone fails (invariant 6). */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const start = sharedStack(test);
let stack: Stack;
let endpoints: ReadonlyMap<string, string>;

test.before(async (t) => {
  t.timeout(120_000);
  stack = await start();
  endpoints = await stack.deploy(join(import.meta.dirname, 'neighbours-app'));
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

/** Endpoints of functions know which request ended them; servers of users do not. */
for (const name of ['web-py', 'web-js', 'web-thread-js', 'server-py', 'server-js']) {
  const ask = async (method: string, n: number, how: string, marker = ''): Promise<{ readonly status: number; readonly text: string }> => {
    const query = new URLSearchParams({ n: String(n), how, marker });
    const response = await stack.call(`/lb/${endpoints.get(name) ?? ''}/web?${query.toString()}`, { method });
    return { status: response.status, text: await response.text() };
  };

  test(`${name}: a request that ends its worker fails alone, but for those that may not be repeated`, async (t) => {
    t.timeout(180_000);
    t.is((await ask('GET', 1, 'stays')).status, 200);
    for (const how of ['exits', 'crashes', 'is killed']) {
      const marker = join(stack.scratch, `${name} ${how}`);
      const [culprit, one, two, written] = await Promise.all([
        ask('GET', 0, how, marker),
        ask('GET', 1, how, marker),
        ask('GET', 2, how, marker),
        ask('POST', 3, how, marker),
      ]);
      t.is(culprit.status, 500, `${how}: ${culprit.text}`);
      t.deepEqual([one, two], [answer(1), answer(2)], how);
      t.is(written.status, 500, how);
      const isKnown = name.startsWith('web') && how === 'exits';
      t.is(written.text.includes('this one may have run'), isKnown, written.text);
      t.is((await readFile(marker, 'utf8')).length, isKnown ? 1 : 2, `${how}: tried again only where it is not known`);
      t.is((await ask('POST', 4, 'stays')).status, 200, how);
    }

    // So do many of them.
    const marker = join(stack.scratch, `${name} many`);
    await writeFile(marker, '');
    const culprits = Array.from({ length: 12 }, () => ask('POST', 0, 'exits', marker));
    const innocents = Array.from({ length: 12 }, (_, n) => ask('GET', n + 1, 'stays'));
    for (const [n, innocent] of (await Promise.all(innocents)).entries()) t.deepEqual(innocent, answer(n + 1));
    for (const { status, text } of await Promise.all(culprits)) t.is(status, 500, text);
    t.deepEqual(await failures(name), [], 'the endpoint has no back-off');
  });
}

function answer(n: number): { readonly status: number; readonly text: string } {
  return { status: 200, text: String(n) };
}

/** What the endpoint's workers failed of. */
async function failures(name: string): Promise<readonly unknown[]> {
  const query = 'query ($endpoint: ID) { workers(endpoint: $endpoint) { failures reason detail } }';
  const body = JSON.stringify({ query, variables: { endpoint: endpoints.get(name) } });
  const response = await stack.call('/graphql', { method: 'POST', body });
  const { data } = (await response.json()) as { data: { workers: { failures: number }[] } };
  return data.workers.filter((worker) => worker.failures > 0);
}
