/** Hostile messages on every stream that the gateway reads: they end their own stream or request at most, and it serves on. */
import test from 'ava';

import { DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import { GatewayNotice, InvokeFromAgent } from '../../proto/gen/capstan/v1/invoke.ts';
import { JobReplies } from '../../proto/gen/capstan/v1/jobs.ts';
import { HostileMessages, seedOf } from '../support/hostile-messages.ts';
import { FakeAgent } from './fake-agent.ts';
import { KEY } from './harness.ts';
import { addWeb, setupLb } from './lb-harness.ts';

/** Messages of each branch. */
const COUNT = 80;

/** Messages that are one by their schema; gRPC itself refuses the others. */
function decoded<Message>(
  messages: HostileMessages,
  [path, by]: readonly [string, 'client' | 'server'],
  decode: (bytes: Buffer) => Message,
): Message[] {
  return [...messages.of(path, by, COUNT)].flatMap(({ bytes }) => {
    try {
      return [decode(bytes)];
    } catch {
      return [];
    }
  });
}

test('agents', async (t) => {
  const { call, invokeAddress } = await setupLb(t);
  const honest = new FakeAgent(t, invokeAddress, 'honest').serve('web', { honest: 1_000 });
  honest.onRequest = ({ answer }) => answer(200, '"served"');
  t.is((await call('GET', '/fn')).text, '"served"');
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    ['w1', 'web', 'r1', 'fn', 'hostile', 'UNAVAILABLE', 'WORKER_LOST'],
  );
  const hostile = new FakeAgent(t, invokeAddress, 'hostile').serve('web', { w1: 1_000 });
  // Each frame speaks of a request that is there, whatever its number was.
  const all = decoded(messages, ['/capstan.v1.InvokeService/Invoke', 'client'], (bytes) => InvokeFromAgent.decode(bytes));
  for (const message of all) {
    const hit = call('GET', '/fn', { headers: { 'x-own': 'a' } }).then(
      ({ status }) => status,
      () => 'cut',
    );
    const numbers = hostile.taken.items.slice(-3).map(({ number }) => number);
    hostile.sendRaw(message);
    for (const number of numbers) hostile.sendRaw({ frames: message.frames.map((frame) => ({ ...frame, request: number })) });
    // Whoever got it, it is over now.
    hostile.onRequest = ({ number, send }) => {
      hostile.sendRaw({ frames: message.frames.map((frame) => ({ ...frame, request: number })) });
      send({ $case: 'abort', value: { code: 'UNAVAILABLE', message: 'not now', untouched: false } });
    };
    const status = await hit;
    t.true(status === 'cut' || (typeof status === 'number' && status >= 200 && status <= 599), String(status));
  }
  hostile.break();
  t.is((await call('GET', '/fn')).text, '"served"');
});

test('the scheduler', async (t) => {
  const { call, scheduler, invokeAddress } = await setupLb(t);
  const host = { host: 'localhost' };
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 100 });
  agent.onRequest = ({ answer }) => answer(200, '"served"');
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    ['ep', 'web', 'node-1', 'acc'],
  );
  const replies = decoded(messages, ['/capstan.v1.JobService/Channel', 'server'], (bytes) => JobReplies.decode(bytes));
  // To requests of its own: a reply is matched by its number.
  const ask = scheduler.onSubmit;
  for (const { replies: items } of replies) {
    scheduler.onSubmit = ({ request }) => {
      scheduler.sendRaw({ replies: [{ replies: items }, { replies: items.map((item) => ({ ...item, requestId: request.requestId })) }] });
      scheduler.sendRaw({ replies: [{ replies: [{ requestId: request.requestId }] }] });
    };
    const { status } = await call('POST', '/v2/ep/runsync', { body: '{"input":{}}', headers: host });
    t.true(status >= 200 && status <= 599);
  }
  scheduler.onSubmit = ask;
  t.like(await call('POST', '/v2/ep/runsync', { body: '{"input":{}}', headers: host }), { status: 200, json: { status: 'COMPLETED' } });

  const updates = decoded(messages, ['/capstan.v1.ControlService/WatchDirectory', 'server'], (bytes) => DirectoryUpdate.decode(bytes));
  const notices = decoded(messages, ['/capstan.v1.GatewayService/Session', 'server'], (bytes) => GatewayNotice.decode(bytes));
  for (const update of updates) {
    scheduler.sendRaw({ updates: [update] });
    // The update may have taken the worker from its node, and then requests would be held.
    agent.serve('web', { w1: 100 });
    await call('GET', '/fn');
    await call('POST', '/v2/ep/run', { body: '{"input":{}}', headers: host });
  }
  for (const notice of notices) scheduler.notify(notice);
  scheduler.notify({ removedNodes: [], unreachedBy: [], unservable: [] });
  // What the last update took away is there again.
  scheduler.addKey(KEY);
  scheduler.addEndpoint('ep');
  addWeb(scheduler);
  let reply = await call('POST', '/v2/ep/runsync', { body: '{"input":{}}', headers: host });
  while (reply.status !== 200) reply = await call('POST', '/v2/ep/runsync', { body: '{"input":{}}', headers: host });
  t.is(reply.json['status'], 'COMPLETED');
  new FakeAgent(t, invokeAddress, 'after').serve('web', { w9: 100 }).onRequest = ({ answer }) => answer(200, '"served"');
  t.is((await call('GET', '/fn')).text, '"served"');
});
