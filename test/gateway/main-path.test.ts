import test from 'ava';

import { setup } from './harness.ts';

test('run answers id and IN_QUEUE, and the input reaches the scheduler byte for byte', async (t) => {
  const { scheduler, call } = await setup(t);
  const input = '{"b": 1,\n "a":12345678901234567890.10, "é":"\\ud800\\u0000", "b": 1e400}';
  const reply = await call('POST', '/v2/ep/run', { body: `{"x":{"input":{}}, "input" : ${input} , "y":[]}` });
  t.is(reply.status, 200);
  t.regex(String(reply.json['id']), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-u1$/);
  t.is(reply.text, `{"id":"${String(reply.json['id'])}","status":"IN_QUEUE"}`);
  t.is(scheduler.inputOf(scheduler.submits[0]), input);
  t.is(scheduler.submits[0]?.jobId, String(reply.json['id']));
});

test('runsync waits and splices the output in as it is', async (t) => {
  const { scheduler, call } = await setup(t);
  const reply = await call('POST', '/v2/ep/runsync', { body: '{"input":{"n":9007199254740993}}' });
  t.is(reply.status, 200);
  const id = String(reply.json['id']);
  t.regex(id, /^sync-[0-9a-f-]{36}-u1$/);
  t.is(reply.text, `{"id":"${id}","status":"COMPLETED","output":{"n":9007199254740993},"delayTime":1,"executionTime":2,"workerId":"w1"}`);
  t.is(scheduler.submits[0]?.waitMs, 90_000);
});
