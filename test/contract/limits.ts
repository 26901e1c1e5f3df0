/** Rate limits over HTTP with the default figures; no worker runs, so the base counts. */
import test, { type ExecutionContext } from 'ava';
import { Agent, request } from 'undici';

import { contract, isProblem, type Answer } from './contract.ts';

const api = contract(test);
const WINDOW_MS = 10_000;

interface Burst {
  readonly accepted: number;
  readonly refused: readonly Answer[];
  readonly ms: number;
}

/** Sends `count` requests, so many at once, and counts what was let in. */
async function burst(
  t: ExecutionContext,
  count: number,
  atOnce: number,
  method: 'GET' | 'POST',
  path: string,
  body?: object,
): Promise<Burst> {
  const agent = new Agent({ connections: atOnce });
  t.teardown(async () => agent.destroy());
  const url = `${api.stack.url}${path.replace(/:([a-z-]+)/, (_all, name: string) => api.id(name))}`;
  const headers = { authorization: `Bearer ${api.stack.apiKey}`, 'content-type': 'application/json' };
  const refused: Answer[] = [];
  let accepted = 0;
  let sent = 0;
  const begun = performance.now();
  const sender = async (): Promise<void> => {
    while (sent < count) {
      sent += 1;
      const answer = await request(url, {
        method,
        headers,
        dispatcher: agent,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.body.text();
      if (answer.statusCode !== 429) {
        accepted += 1;
        continue;
      }
      const named = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as [string, string]);
      refused.push({ status: 429, headers: new Headers(named), text, json: JSON.parse(text) as Answer['json'] });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, sender));
  return { accepted, refused, ms: performance.now() - begun };
}

/** All of one window, or the machine was too slow to say. */
function exactly(t: ExecutionContext, limit: number, { accepted, refused, ms }: Burst): void {
  const windows = Math.floor(ms / WINDOW_MS) + 1;
  t.true(accepted >= limit && accepted <= limit * windows, `${accepted} let in within ${ms} ms`);
  const [first] = refused;
  if (windows > 1 && first === undefined) return;
  if (first === undefined) throw new Error('nothing was refused');
  isProblem(t, first, 429, /more than/);
  const seconds = Number(first.headers.get('retry-after'));
  t.true(Number.isInteger(seconds) && seconds >= 1 && seconds <= 10);
}

test('Rate limits: /run 1000 requests per 10 seconds', async (t) => {
  exactly(t, 1000, await burst(t, 1020, 50, 'POST', '/v2/:limited-run/run', { input: {} }));
});

test('Rate limits: /status 2000 requests per 10 seconds', async (t) => {
  const job = await api.run('limited-status');
  exactly(t, 2000, await burst(t, 2020, 50, 'GET', `/v2/:limited-status/status/${job}`));
});

test('Rate limits: /stream 2000 requests per 10 seconds', async (t) => {
  const job = await api.run('limited-stream');
  exactly(t, 2000, await burst(t, 2020, 50, 'GET', `/v2/:limited-stream/stream/${job}?wait=0`));
});

test('Rate limits: /cancel 100 requests per 10 seconds', async (t) => {
  // A refusal counts as well: the job is not there.
  exactly(t, 100, await burst(t, 110, 5, 'POST', '/v2/:limited-cancel/cancel/no-such-job'));
});

test('Rate limits: /purge-queue 2 requests per 10 seconds', async (t) => {
  exactly(t, 2, await burst(t, 4, 1, 'POST', '/v2/:limited-purge/purge-queue'));
});

test('Rate limits: /requests 10 requests per 10 seconds', async (t) => {
  exactly(t, 10, await burst(t, 12, 1, 'GET', '/v2/:limited-requests/requests'));
});

for (const [name, method, path, body] of [
  ['/runsync', 'POST', '/v2/:limited-runsync/runsync', { input: {} }],
  ['/openai/*', 'GET', '/v2/:limited-openai/openai/v1/models', undefined],
] as const) {
  test(`Rate limits: ${name} 400 at once`, async (t) => {
    const agent = new Agent({ connections: 410 });
    t.teardown(async () => agent.destroy());
    const url = `${api.stack.url}${path.replace(/:([a-z-]+)/, (_all, endpoint: string) => api.id(endpoint))}`;
    const headers = { authorization: `Bearer ${api.stack.apiKey}`, 'content-type': 'application/json' };
    const refusal = Promise.withResolvers<{ status: number; retryAfter: string }>();
    let refusals = 0;
    const abort = new AbortController();
    const calls = Array.from({ length: 401 }, async () => {
      const answer = await request(url, {
        method,
        headers,
        dispatcher: agent,
        signal: abort.signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      refusals += 1;
      refusal.resolve({ status: answer.statusCode, retryAfter: String(answer.headers['retry-after']) });
      await answer.body.dump();
    });
    // 400 wait for a worker that never comes; the one beyond them is answered at once.
    const { status, retryAfter } = await refusal.promise;
    t.is(status, 429);
    t.regex(retryAfter, /^[1-9]\d*$/);
    const open = await api.call('GET', `/v2/:limited-${name === '/runsync' ? 'runsync' : 'openai'}/health`);
    t.true((open.json['jobs'] as { inQueue: number }).inQueue >= 300);
    abort.abort();
    await Promise.allSettled(calls);
    t.is(refusals, 1);
  });
}

test('Rate limits: an endpoint without them is not limited', async (t) => {
  const { refused } = await burst(t, 30, 1, 'GET', '/v2/:parked/requests');
  t.is(refused.length, 0);
});
