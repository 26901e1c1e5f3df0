/** What answers tell caches and connections. */
import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { job } from './fake-scheduler.ts';
import { KEY, RawConnection, setup } from './harness.ts';

test('no answer that may hold a secret is stored: results, keys, refusals, lists', async (t) => {
  const { call, scheduler } = await setup(t, { metrics: 'open' });
  scheduler.jobs.set('done', job('done', JobState.COMPLETED));
  for (const [method, path, body, key] of [
    ['POST', '/graphql', '{"query":"{ __typename }"}', KEY],
    ['POST', '/graphql', '{"query":"{"}', KEY],
    ['POST', '/graphql', '{"query":"{ __typename }"}', 'wrong'],
    ['POST', '/v2/ep/run', '{"input":{}}', KEY],
    ['POST', '/v2/ep/runsync', '{"input":{}}', KEY],
    ['POST', '/v2/ep/runsync', '{"input":7}', KEY],
    ['GET', '/v2/ep/status/done', undefined, KEY],
    ['GET', '/v2/ep/stream/done', undefined, KEY],
    ['GET', '/v2/ep/requests', undefined, KEY],
    ['POST', '/v2/ep/cancel/done', undefined, KEY],
    ['POST', '/v2/ep/openai/v1/models', '{}', KEY],
    ['GET', `/builds/${'a'.repeat(64)}`, undefined, KEY],
    ['GET', '/metrics', undefined, KEY],
    ['GET', '/v2/ep/health', undefined, 'wrong'],
    ['GET', '/nowhere', undefined, KEY],
  ] as const) {
    const { headers, status } = await call(method, path, { ...(body === undefined ? {} : { body }), key });
    t.is(headers['cache-control'], 'no-store', `${method} ${path}: ${status}`);
  }
  for (const path of ['/docs/', '/docs/js/scalar.js', '/openapi.json'])
    t.not((await call('GET', path, { key: null })).headers['cache-control'], 'no-store', path);
});

test('the page of the API says of the connection what its caller asked for', async (t) => {
  const { gateway } = await setup(t);
  for (const path of ['/docs', '/docs/', '/docs/js/scalar.js']) {
    const raw = new RawConnection(t, gateway.url);
    raw.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const answer = await raw.answer();
    t.regex(answer?.head ?? '', /^connection: close$/im, path);
    // The server ends it, as it said.
    await raw.closed;
  }
});
