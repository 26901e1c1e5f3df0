/** Hostile calls of the worker API, from a worker that has a token: each is answered, none by a fault of ours, and good calls go on. */
import test from 'ava';
import { pino } from 'pino';
import { request } from 'undici';

import type { JobMailbox, JobPost } from '../../agent/worker-api/job-mailbox.ts';
import { WorkerApi } from '../../agent/worker-api/server.ts';

const DEEP = 200_000;
const bodies: readonly (string | Buffer)[] = [
  '',
  'null',
  '[]',
  '"text"',
  '{"output":',
  '{"output":1}}',
  '{"output":1,"output":2}',
  '{"__proto__":{"output":1},"constructor":1}',
  '{"output":NaN}',
  '{"error":{"a":[1]}}',
  `{"error":"${'x'.repeat(1_000_000)}"}`,
  '{"error":1e999,"status":["IN_PROGRESS"],"stopPod":"true"}',
  '{"status":"IN_PROGRESS"}',
  `{"output":${'['.repeat(DEEP)}${']'.repeat(DEEP)}}`,
  `{"error":${'{"a":'.repeat(DEEP)}1${'}'.repeat(DEEP)}}`,
  '['.repeat(DEEP),
  Buffer.from([0x7b, 0x22, 0xff, 0xc0, 0x22, 0x3a, 0x31, 0x7d]),
  Buffer.alloc(100_000),
];
const jobs = ['j1', '__proto__', '%00', '%ff', '%', '..%2f..', 'x'.repeat(600), '%F0%9F%98%80', 'j1%0d%0aX-A:%20b'];
const queries = [
  '',
  '?job_in_progress=1&job_in_progress=0',
  '?batch_size=1e999',
  '?batch_size=-1&batch_size=x',
  '?job_id=',
  '?status=unhealthy&reason=%ff',
  '?__proto__=1',
];

test('each is answered below 500, and the worker is served after them', async (t) => {
  const errors: string[] = [];
  const api = await WorkerApi.start({
    host: '127.0.0.1',
    port: 0,
    log: pino({ level: 'error' }, { write: (line: string) => void errors.push(line) }),
  });
  t.teardown(() => api.close());
  const posts: (readonly [string, JobPost | string])[] = [];
  const mailbox: JobMailbox = {
    take: () => Promise.resolve({ jobs: [], written: () => undefined, lost: () => undefined }),
    stops: () => Promise.resolve([]),
    post: (job, post) => void posts.push([job, post]),
    refuse: (job, fault) => void posts.push([job, fault]),
    chunk: () => Promise.resolve(),
    ping: () => undefined,
  };
  const { token } = api.admit('w1', 'ep1', mailbox);
  const call = async (method: 'GET' | 'POST', path: string, body?: string | Buffer): Promise<number> => {
    const { statusCode, body: answer } = await request(`http://127.0.0.1:${api.port}/v2/ep1/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body }),
    });
    await answer.dump();
    return statusCode;
  };
  for (const kind of ['job-done', 'job-stream']) {
    for (const body of bodies) {
      const status = await call('POST', `${kind}/w1/j1`, body);
      t.true(status < 500, `${kind} ${status} ${body.toString().slice(0, 60)}`);
    }
    for (const job of jobs) t.true((await call('POST', `${kind}/w1/${job}`, '{"output":1}')) < 500, job);
  }
  for (const kind of ['job-take', 'job-take-batch', 'job-stop', 'ping']) {
    for (const query of queries) t.true((await call('GET', `${kind}/w1${query}`)) < 500, `${kind}${query}`);
  }
  t.deepEqual(errors, []);
  posts.length = 0;
  t.is(await call('POST', 'job-done/w1/j1', '{"output":{"a":1}}'), 200);
  t.deepEqual(posts, [['j1', { kind: 'returned', output: Buffer.from('{"a":1}'), stopPod: false }]]);
});
