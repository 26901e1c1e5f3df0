/** Responses that leave in one write: the same document, head and connection as by the framework, which still sends them with CORS. */
import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { job, type FakeScheduler } from './fake-scheduler.ts';
import { KEY, RawConnection, setup } from './harness.ts';

const OUTPUT = '{"text": "ü 你 😀", "n": 9007199254740993}';
const HEAD = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`;

function fill({ jobs }: FakeScheduler): void {
  jobs.set('done', job('done', JobState.COMPLETED, { output: { body: { $case: 'inline', value: Buffer.from(OUTPUT) } } }));
  jobs.set('failed', job('failed', JobState.FAILED, { error: 'ü 你 😀 "\n' }));
  jobs.set('waits', job('waits', JobState.IN_QUEUE));
}

test('a document has its bytes, its length and its headers, with CORS and without', async (t) => {
  const [plain, shared] = [await setup(t), await setup(t, { corsOrigins: ['https://a.example'] })];
  for (const { scheduler } of [plain, shared]) fill(scheduler);
  for (const id of ['done', 'failed', 'waits']) {
    const [reply, other] = [await plain.call('GET', `/v2/ep/status/${id}`), await shared.call('GET', `/v2/ep/status/${id}`)];
    t.is(reply.status, 200);
    t.is(reply.headers['content-length'], String(Buffer.byteLength(reply.text)), id);
    t.is(reply.text, other.text);
    const { date: _date, ...headers } = reply.headers;
    t.like(other.headers, headers);
    t.like(headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' });
  }
  t.true((await plain.call('GET', '/v2/ep/status/done')).text.includes(`"output":${OUTPUT}`));
  const failed = (await plain.call('GET', '/v2/ep/status/failed')).json;
  t.is(failed['error'], 'ü 你 😀 "\n');
});

test('its bytes are counted', async (t) => {
  const { scheduler, call } = await setup(t, { metrics: 'open' });
  fill(scheduler);
  const { text } = await call('GET', '/v2/ep/status/done');
  const metrics = (await call('GET', '/metrics?part=gateway')).text;
  const line = 'capstan_http_response_body_bytes_total{method="GET",route="/v2/:endpointId/status/:jobId"}';
  t.true(metrics.includes(`${line} ${Buffer.byteLength(text)}\n`));
});

test('pipelined responses keep their order, and the connection ends when its caller wants that', async (t) => {
  const { scheduler, gateway } = await setup(t);
  fill(scheduler);
  const raw = new RawConnection(t, gateway.url);
  const ids = ['done', 'waits', 'failed'];
  raw.write(ids.map((id) => `GET /v2/ep/status/${id} ${HEAD}${id === 'failed' ? 'Connection: close\r\n' : ''}\r\n`).join(''));
  for (const id of ids) {
    const answer = await raw.answer();
    t.is(answer?.status, 200);
    t.is((JSON.parse(answer?.body ?? '{}') as { id?: string }).id, id);
    t.is(/^connection: close$/im.test(answer?.head ?? ''), id === 'failed');
  }
  await raw.closed;
});

test('a caller of HTTP/1.0 gets it too', async (t) => {
  const { scheduler, gateway } = await setup(t);
  fill(scheduler);
  const raw = new RawConnection(t, gateway.url).write(`GET /v2/ep/status/waits HTTP/1.0\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  t.is((await raw.answer())?.status, 200);
  await raw.closed;
});
