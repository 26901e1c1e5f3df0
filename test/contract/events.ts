/** Webhooks through a whole stack; the spacing of tries is proved with a clock of its own in test/integration/webhooks.test.ts. */
import test from 'ava';

import { Receiver, type Received } from '../support/receiver.ts';
import { contract } from './contract.ts';

const api = contract(test);

const payloadOf = ({ body }: Received): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>;

test('Events: the webhook of a job is called when it completes, by POST, with the captured shape', async (t) => {
  const receiver = await Receiver.open(t);
  const id = await api.run('echo', { a: 1 }, { webhook: receiver.url() });
  const post = await receiver.next();
  t.is(post.method, 'POST');
  t.regex(post.headers['content-type'] ?? '', /^application\/json/);
  const { delayTime, executionTime, ...rest } = payloadOf(post);
  t.deepEqual(rest, { id, status: 'COMPLETED', input: { a: 1 }, output: { a: 1 }, webhook: receiver.url() });
  t.true(Number.isInteger(delayTime) && Number.isInteger(executionTime));
  for (const header of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) t.truthy(post.headers[header]);
});

test('Events: registration works with /runsync too, and for a job that fails', async (t) => {
  const receiver = await Receiver.open(t);
  const body = { input: { b: 2 }, webhook: receiver.url() };
  const answer = await api.call('POST', '/v2/:failing/runsync', { body });
  t.is(answer.json['status'], 'FAILED');
  t.like(payloadOf(await receiver.next()), { id: answer.json['id'], status: 'FAILED', output: null, error: 'cannot do {"b":2}' });
});

test('Webhook: a job cancelled while it runs is posted as CANCELLED', async (t) => {
  const receiver = await Receiver.open(t);
  const id = await api.run('endless', {}, { webhook: receiver.url() });
  await api.running('endless', id);
  await api.call('POST', `/v2/:endless/cancel/${id}`);
  t.like(payloadOf(await receiver.next()), { id, status: 'CANCELLED', output: null });
});

for (const webhook of [
  'http://10.0.0.1/',
  'http://169.254.169.254/latest/meta-data',
  'http://[fd00::1]/',
  'http://3232235777/',
  'http://0xa000001/',
]) {
  test(`Webhook: private addresses are refused at once: ${webhook}`, async (t) => {
    for (const call of ['run', 'runsync']) {
      const answer = await api.call('POST', `/v2/:echo/${call}`, { body: { input: {}, webhook } });
      t.is(answer.status, 400);
      t.regex(String(answer.json['detail']), /webhook: must not resolve to a private address/);
    }
  });
}
