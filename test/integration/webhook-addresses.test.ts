/** Where webhooks may go: addresses that are refused, and URLs with secrets. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import { pino } from 'pino';
import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import type { CreateAccountResponse, ListWebhooksResponse } from '../../proto/gen/capstan/v1/control.ts';
import { Receiver } from '../support/receiver.ts';
import { unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { inline, payloadOf, WebhookWorld } from './webhook-world.ts';

test.serial('an address that the URL shows to be private is refused with the submission', async (t) => {
  const world = await WebhookWorld.open(t, { webhookAllow: '' });
  for (const url of ['http://127.0.0.1/', 'http://localhost:8080/', 'https://[::1]/', 'http://2130706433/', 'http://192.168.0.10/']) {
    const { reply } = await world.submit(url);
    if (reply.result?.$case !== 'failure') return t.fail(`${url} was taken`);
    t.like(reply.result.value, { code: 'INVALID_ARGUMENT', field: 'webhook' });
    t.regex(reply.result.value.message, /^webhook: must not resolve to a private address/);
  }
  t.is((await world.submit('https://example.com/')).reply.result?.$case, 'job');
});

test.serial('a name is checked when the connection is made, by all the addresses it has then', async (t) => {
  const receiver = await Receiver.open(t);
  const asked: string[] = [];
  const addresses = ['10.0.0.1'];
  const resolve = async (host: string): Promise<string[]> => {
    asked.push(host);
    return addresses;
  };
  const world = await WebhookWorld.open(t, { webhookAllow: '127.0.0.2,named.example' }, { resolve });
  const url = receiver.url('/', 'rebound.example');
  const id = await world.completed(url);
  t.is((await world.tried(id, 1)).error, 'rebound.example resolves to a private address that CAPSTAN_WEBHOOK_ALLOW does not include');
  addresses.splice(0, 1, '127.0.0.1', '::1', '::ffff:127.0.0.1');
  world.clock.advance(10_000);
  t.regex((await world.tried(id, 2)).error, /resolves to a private address/);
  t.is(receiver.received.length, 0);
  t.deepEqual(asked, ['rebound.example', 'rebound.example'], 'asked anew for each try, and once');

  await world.completed(receiver.url('/', 'named.example'));
  t.is((await receiver.next()).headers.host, `named.example:${receiver.port}`);
});

test.serial('a connection goes to the address that was checked, whatever the name says a moment later', async (t) => {
  const receiver = await Receiver.open(t);
  let calls = 0;
  const resolve = async (): Promise<string[]> => (calls++ === 0 ? ['127.0.0.1'] : ['127.0.0.3']);
  const world = await WebhookWorld.open(t, { webhookAllow: '127.0.0.1' }, { resolve });
  await world.completed(receiver.url('/', 'rebinding.example'));
  await receiver.next();
  await world.delivered();
  t.is(calls, 1);
});

test.serial('secrets of a URL reach the receiver alone: they are encrypted at rest and shown nowhere', async (t) => {
  const receiver = await Receiver.open(t, [500, 500, 500, 200]);
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const world = await WebhookWorld.open(t, {}, { log });
  const secrets = ['p4ssw0rd-of-user', 'tok-5ecret', 'xoxb1234567890abcdef', 'fragm3nt'] as const;
  const [password, token, segment, fragment] = secrets;
  const url = receiver.url(`/in/${segment}/x?token=${token}&plain=1#${fragment}`).replace('//', `//user:${password}@`);
  const shown = receiver.url('/in/***/x?token=***&plain=1#***').replace('//', '//user:***@');

  const dispatch = await world.dispatched(url);
  t.is(dispatch.webhook, shown);
  const { result } = await world.channel.ask(world.endpoint, { $case: 'get', value: { jobId: dispatch.jobId, waitMs: 0 } });
  t.is(result?.$case === 'job' ? result.value.webhook : '', shown);
  await world.end(dispatch, {});
  const id = `${dispatch.jobId}_${dispatch.token}`;
  await receiver.next();
  t.is((await world.tried(id, 1)).url, shown);
  // A rotation of the master key, which leaves the URL as it is, and a new start come between two tries.
  await unary((done) => world.scheduler.control.rotateMasterKey({}, world.scheduler.bearer(world.scheduler.secret('api-key')), done));
  await world.scheduler.restart();
  world.clock.advance(10_000);
  await receiver.next();
  await world.tried(id, 2);
  world.clock.advance(10_000);
  await receiver.next();
  const listed = await world.tried(id, 3);

  const files = await readdir(join(world.scheduler.dataDir, 'scheduler'));
  const stored = await Promise.all(
    files.filter((name) => name.startsWith('capstan.db')).map((name) => readFile(join(world.scheduler.dataDir, 'scheduler', name))),
  );
  const places = { stored: Buffer.concat(stored).toString('latin1'), logged: lines.join(''), listed: `${listed.url} ${listed.error}` };
  for (const [place, text] of Object.entries(places)) for (const secret of secrets) t.false(text.includes(secret), `${secret} is ${place}`);
  t.true(places.stored.includes('user:***@'), 'it is the right file');
  t.true(places.logged.includes(id), 'it is the right log');

  await world.redeliver(id);
  const post = await receiver.next();
  t.is(post.url, `/in/${segment}/x?token=${token}&plain=1`);
  t.is(post.headers.authorization, `Basic ${Buffer.from(`user:${password}`).toString('base64')}`);
  t.is(payloadOf(post)['webhook'], url, 'the receiver knows its own URL');
  await world.delivered();
});

test.serial('what is opened for the operator’s account is closed to every other, by address and by name', async (t) => {
  const receiver = await Receiver.open(t);
  const resolve = (): Promise<string[]> => Promise.resolve(['127.0.0.1']);
  const world = await WebhookWorld.open(t, { webhookAllow: '', webhookAllowOperator: '127.0.0.0/8' }, { resolve });
  const { scheduler } = world;
  const operator = scheduler.bearer(scheduler.secret('api-key'));
  const request = { id: 'tenant', workerQuota: 0 };
  const { keyText } = await unary<CreateAccountResponse>((done) => scheduler.control.createAccount(request, operator, done));
  const { endpoints } = await scheduler.deploy([{ name: 'theirs' }], { token: keyText });
  const endpoint = endpoints[0]?.id ?? '';
  const submit = (jobId: string, webhook: string) => {
    const job = { jobId, kind: JobKind.RUN, idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, webhook };
    return world.channel.ask(endpoint, { $case: 'submit', value: { ...job, input: { body: inline('{}') } } });
  };
  const refused = await submit('by-address', receiver.url());
  if (refused.result?.$case !== 'failure') return t.fail('the address was taken');
  t.regex(refused.result.value.message, /^webhook: must not resolve to a private address/);
  t.is((await submit('by-name', receiver.url('/', 'inside.example'))).result?.$case, 'job');
  await unary((done) => scheduler.jobs.cancel({ endpointId: endpoint, jobId: 'by-name' }, world.gateway(), done));
  const tenant = scheduler.bearer(keyText);
  const webhook = await until('the delivery was tried', async () => {
    const page = await unary<ListWebhooksResponse>((done) =>
      scheduler.control.listWebhooks({ afterId: '', limit: 0, newestFirst: false }, tenant, done),
    );
    return page.webhooks.find(({ tries }) => tries === 1);
  });
  t.regex(webhook.error, /inside\.example resolves to a private address/);
  t.is(receiver.received.length, 0);

  await world.completed(receiver.url('/', 'inside.example'));
  await world.completed(receiver.url('/own'));
  t.deepEqual([(await receiver.next()).url, (await receiver.next()).url].toSorted(), ['/', '/own']);
});
