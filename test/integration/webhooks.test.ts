/** Webhooks as receivers see them (invariant 12). */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { Webhook } from 'standardwebhooks';

import { WebhookState } from '../../proto/gen/capstan/v1/control.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { Receiver, type Received } from '../support/receiver.ts';
import { unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { inline, payloadOf, WebhookWorld } from './webhook-world.ts';

const HOURS = 3_600_000;

test.serial('a completed job is posted once, signed, in the shape of the original', async (t) => {
  const receiver = await Receiver.open(t);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url('/in?token=x'));
  const post = await receiver.next();
  t.is(`${post.method} ${post.url}`, 'POST /in?token=x');
  t.is(post.headers['content-type'], 'application/json');
  t.is(post.headers['webhook-id'], id);
  t.is(id, 'job-1_1');
  t.is(
    post.body.toString(),
    `{"id":"job-1","status":"COMPLETED","input":{ "n" : 1 },"output":{"out":2},"delayTime":0,"executionTime":5,"webhook":"${receiver.url('/in?token=x')}"}`,
    'input and output byte for byte',
  );
  const secret = await world.secret();
  t.regex(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const headers = post.headers as Record<string, string>;
  t.notThrows(() => new Webhook(secret).verify(post.body, headers));
  t.throws(() => new Webhook(secret).verify(post.body.toString().replace('COMPLETED', 'FAILED'), headers));
  await world.delivered();
  t.is(receiver.received.length, 1);
});

test.serial('a rotated secret signs beside the old one for 24 hours, and then alone', async (t) => {
  const receiver = await Receiver.open(t);
  const world = await WebhookWorld.open(t);
  const signedWith = async (known: Readonly<Record<string, string>>): Promise<string[]> => {
    await world.completed(receiver.url());
    const { headers, body } = await receiver.next();
    const at = new Date(Number(headers['webhook-timestamp']) * 1_000);
    return String(headers['webhook-signature'])
      .split(' ')
      .map((signature) => {
        const isOf = ([, secret]: [string, string]): boolean =>
          new Webhook(secret).sign(String(headers['webhook-id']), at, body) === signature;
        return Object.entries(known).find(isOf)?.[0] ?? 'nobody';
      });
  };
  const first = await world.secret();
  const { secret: second, previousUntilMs } = await world.rotateSecret();
  t.is(await world.secret(), second);
  t.is(Number(previousUntilMs), world.clock.now().wall + 24 * HOURS);
  t.deepEqual(await signedWith({ first, second }), ['second', 'first']);
  const verified = new Webhook(first).verify(receiver.received[0]?.body ?? '', receiver.received[0]?.headers as Record<string, string>);
  t.like(verified, { id: 'job-1' }, 'a receiver that knows the old one alone goes on');

  world.clock.advance(24 * HOURS - 60_000);
  t.deepEqual(await signedWith({ first, second }), ['second', 'first']);
  world.clock.advance(60_000);
  t.deepEqual(await signedWith({ first, second }), ['second']);

  const { secret: third } = await world.rotateSecret();
  const { secret: fourth } = await world.rotateSecret();
  t.deepEqual(await signedWith({ second, third, fourth }), ['fourth', 'third']);
});

test.serial('a delivery that waits is signed with both secrets, also after a restart', async (t) => {
  const receiver = await Receiver.open(t, [500, 200]);
  const world = await WebhookWorld.open(t);
  const first = await world.secret();
  const id = await world.completed(receiver.url());
  await world.tried(id, 1);
  await receiver.next();
  const { secret: second } = await world.rotateSecret();
  await world.scheduler.restart();
  t.is(await world.secret(), second);
  world.clock.advance(10_000);
  const { headers, body } = await receiver.next();
  const signatures = [second, first].map((secret) =>
    new Webhook(secret).sign(id, new Date(Number(headers['webhook-timestamp']) * 1_000), body),
  );
  t.is(headers['webhook-signature'], signatures.join(' '));
});

test.serial('secrets are rotated by the holder of a key alone, and stand in the store encrypted', async (t) => {
  const world = await WebhookWorld.open(t);
  const { secret } = await world.rotateSecret();
  t.is(await world.secret(), secret);
  const { control } = world.scheduler;
  for (const key of ['', 'wrong']) {
    await t.throwsAsync(
      unary((done) => control.rotateWebhookSecret({}, world.scheduler.bearer(key), done)),
      { code: 'UNAUTHENTICATED' },
    );
  }
  t.is(await world.secret(), secret);
  const db = await readFile(join(world.scheduler.dataDir, 'scheduler/capstan.db-wal'));
  t.false(db.includes(secret));
});

test.serial('every way a job can end is posted', async (t) => {
  const receiver = await Receiver.open(t);
  const world = await WebhookWorld.open(t);
  const facts = async (): Promise<unknown> => {
    const { id: _, input, webhook, ...rest } = payloadOf(await receiver.next());
    t.deepEqual([input, webhook], [{ n: 1 }, receiver.url()]);
    return rest;
  };
  const times = { delayTime: 0, executionTime: 5 };

  await world.end(await world.dispatched(receiver.url()), { outcome: AttemptOutcome.FAILED, error: 'it broke' });
  t.deepEqual(await facts(), { status: 'FAILED', output: null, error: 'it broke', ...times });

  await world.end(await world.dispatched(receiver.url()), {
    outcome: AttemptOutcome.FAILED,
    error: 'custom',
    output: { body: inline('{"detail":1}') },
  });
  t.deepEqual(await facts(), { status: 'FAILED', output: { detail: 1 }, error: 'custom', ...times });

  await world.end(await world.dispatched(receiver.url()), { outcome: AttemptOutcome.TIMED_OUT, error: 'executionTimeout exceeded' });
  t.deepEqual(await facts(), { status: 'TIMED_OUT', output: null, error: 'executionTimeout exceeded', ...times });

  await world.end(await world.dispatched(receiver.url()), { outcome: AttemptOutcome.WORKER_LOST, error: 'the worker was killed' });
  const { error, ...lost } = (await facts()) as { error: string };
  t.deepEqual(lost, { status: 'FAILED', output: null, delayTime: 0, executionTime: 0 });
  t.regex(error, /the worker was killed.*attempt 1 of 1/);

  const { jobId, token } = await world.dispatched(receiver.url());
  world.session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } });
  await until('the job runs', async () => (await status(world, jobId)) === 'IN_PROGRESS');
  await world.cancel(jobId);
  t.deepEqual(await facts(), { status: 'CANCELLED', output: null, delayTime: 0, executionTime: 0 });
});

test.serial('jobs that never ran are posted without times: cancelled in the queue, or purged from it', async (t) => {
  const receiver = await Receiver.open(t);
  const world = await WebhookWorld.open(t);
  world.session.close();
  await world.session.ended;
  const { id } = await world.submit(receiver.url());
  await world.cancel(id);
  t.deepEqual(payloadOf(await receiver.next()), { id, status: 'CANCELLED', input: { n: 1 }, output: null, webhook: receiver.url() });

  const { id: purged } = await world.submit(receiver.url());
  await unary((done) => world.scheduler.jobs.purgeQueue({ endpointId: world.endpoint }, world.gateway(), done));
  const error = 'purged from the queue';
  t.deepEqual(payloadOf(await receiver.next()), {
    id: purged,
    status: 'CANCELLED',
    input: { n: 1 },
    output: null,
    error,
    webhook: receiver.url(),
  });
});

test.serial('200 alone is success; 2 more tries, 10 seconds apart, with one id and fresh signatures; then no more', async (t) => {
  const receiver = await Receiver.open(t, [500, 204, 201]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  const posts = [await receiver.next()];
  for (const [tries, error] of [
    [1, 'the receiver responded with status 500, not 200'],
    [2, 'the receiver responded with status 204, not 200'],
  ] as const) {
    const webhook = await world.tried(id, tries);
    t.like(webhook, { state: WebhookState.PENDING, error, dueAtMs: BigInt(world.clock.now().wall + 10_000) });
    world.clock.advance(9_999);
    await world.webhooks();
    t.is(receiver.received.length, tries, 'not a moment early');
    world.clock.advance(1);
    posts.push(await receiver.next());
  }
  const given = await world.tried(id, 3);
  t.like(given, {
    state: WebhookState.FAILED,
    error: 'the receiver responded with status 201, not 200',
    endpointId: world.endpoint,
    url: receiver.url(),
  });
  world.clock.advance(HOURS);
  await world.webhooks();
  t.is(receiver.received.length, 3);

  const { text } = await unary<{ text: string }>((done) => world.scheduler.control.getMetrics({}, world.gateway(), done));
  t.regex(text, /^capstan_webhook_deliveries_total\{outcome="failed"\} 2$/m);
  t.regex(text, /^capstan_webhook_deliveries_total\{outcome="exhausted"\} 1$/m);

  t.is(new Set(posts.map(({ body }) => body.toString())).size, 1);
  t.deepEqual(new Set(posts.map(({ headers }) => headers['webhook-id'])), new Set([id]));
  t.is(new Set(posts.map(({ headers }) => headers['webhook-timestamp'])).size, 3);
  const verifier = new Webhook(await world.secret());
  for (const { body, headers } of posts) t.notThrows(() => verifier.verify(body, headers as Record<string, string>));
});

test.serial('a webhook that was given up is sent anew on request, with all its tries', async (t) => {
  const receiver = await Receiver.open(t, [500, 500, 500, 503, 200]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  for (const tries of [1, 2]) {
    await world.tried(id, tries);
    world.clock.advance(10_000);
  }
  await world.tried(id, 3);
  await world.redeliver(id);
  await world.tried(id, 1);
  world.clock.advance(10_000);
  await world.delivered();
  t.is(receiver.received.length, 5);
  await t.throwsAsync(world.redeliver(id), { message: /webhook job-1_1 does not exist/ });
  const redelivered = (await world.scheduler.audited()).filter(({ action }) => action === 'redeliverWebhook');
  t.deepEqual(
    redelivered.map(({ object }) => object),
    [id],
    'the audit log has the one that was taken',
  );
});

test.serial('the payload outlives the job', async (t) => {
  const receiver = await Receiver.open(t, [500, 500, 500, 200]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  for (const tries of [1, 2]) {
    await world.tried(id, tries);
    world.clock.advance(10_000);
  }
  await world.tried(id, 3);
  world.clock.advance(HOURS);
  await until('the job is forgotten', async () => (await status(world, 'job-1')) === 'NOT_FOUND');
  await world.redeliver(id);
  await world.delivered();
  t.like(payloadOf(receiver.received.at(-1) as Received), { id: 'job-1', status: 'COMPLETED', input: { n: 1 }, output: { out: 2 } });
});

test.serial('deliveries survive restarts between their tries', async (t) => {
  const receiver = await Receiver.open(t, [500, 500, 200]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  const secret = await world.secret();
  for (const tries of [1, 2]) {
    await world.tried(id, tries);
    await world.scheduler.restart();
    t.like(await world.tried(id, tries), { state: WebhookState.PENDING });
    t.is(receiver.received.length, tries, 'the wait goes on where it was');
    world.clock.advance(10_000);
  }
  await world.delivered();
  t.is(receiver.received.length, 3);
  t.is(await world.secret(), secret);
  const { body, headers } = receiver.received.at(-1) as Received;
  t.notThrows(() => new Webhook(secret).verify(body, headers as Record<string, string>));
});

test.serial('a try that a restart cut off is made again', async (t) => {
  const receiver = await Receiver.open(t, ['never', 200]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  await receiver.next();
  await world.scheduler.restart();
  t.is((await receiver.next()).headers['webhook-id'], id);
  await world.delivered();
});

test.serial('redirects are not followed', async (t) => {
  const elsewhere = await Receiver.open(t);
  const receiver = await Receiver.open(t, [(response) => response.writeHead(307, { location: elsewhere.url() }).end()]);
  const world = await WebhookWorld.open(t);
  const id = await world.completed(receiver.url());
  t.is((await world.tried(id, 1)).error, 'the receiver responded with status 307, not 200');
  t.is(elsewhere.received.length, 0);
});

test.serial('dead receivers and silent ones delay nobody else, and get their share of connections only', async (t) => {
  const silent = await Receiver.open(t, ['never']);
  const fast = await Receiver.open(t);
  const world = await WebhookWorld.open(t, { webhookTimeoutMs: 60_000 });
  for (let i = 0; i < 30; i++) await world.completed(silent.url());
  for (let i = 0; i < 8; i++) await silent.next();
  await world.completed(fast.url());
  await fast.next();
  t.is(silent.received.length, 8, 'of one host no more than eight at once');
  await until('only those of the silent one are left', async () => (await world.webhooks()).length === 30);
});

test.serial('a receiver that does not answer in time has failed, and so has one that is not there', async (t) => {
  const silent = await Receiver.open(t, ['never']);
  const gone = await Receiver.open(t);
  const url = gone.url();
  const hurried = await WebhookWorld.open(t, { webhookTimeoutMs: 100 });
  t.is((await hurried.tried(await hurried.completed(silent.url()), 1)).error, 'no response within 101 ms');
  // On a busy machine another failure may take longer than that to be seen.
  const world = await WebhookWorld.open(t);
  const closing = await Receiver.open(t, [(response) => response.destroy()]);
  t.is((await world.tried(await world.completed(closing.url()), 1)).error, 'the connection was closed before a response');
  const port = new URL(url).port;
  await gone.close();
  t.is((await world.tried(await world.completed(`http://127.0.0.1:${port}/`), 1)).error, 'connection refused');
});

test.serial('big bodies are streamed from the blob store, signed as a whole', async (t) => {
  const receiver = await Receiver.open(t, [500, 200]);
  const world = await WebhookWorld.open(t);
  const input = JSON.stringify({ text: 'ä'.repeat(300_000) });
  const output = JSON.stringify('z'.repeat(1_500_000));
  const [big, bigger] = [await world.put(Buffer.from(input)), await world.put(Buffer.from(output))];
  const id = await world.completed(receiver.url(), bigger, { input: { body: big } });
  await world.tried(id, 1);
  world.clock.advance(10_000);
  await world.delivered();
  const { body, headers } = receiver.received[1] as Received;
  t.true(body.toString().startsWith(`{"id":"job-1","status":"COMPLETED","input":${input},"output":${output},"delayTime":`));
  t.is(headers['content-length'], String(body.length));
  const verifier = new Webhook(await world.secret());
  t.notThrows(() => verifier.verify(body, headers as Record<string, string>));
});

test.serial('an end after a retry has an id of its own, whatever that end is', async (t) => {
  const receiver = await Receiver.open(t);
  const world = await WebhookWorld.open(t);
  const dispatch = await world.dispatched(receiver.url());
  await world.end(dispatch, { outcome: AttemptOutcome.FAILED, error: 'once' });
  world.session.close();
  await world.session.ended;
  await unary((done) => world.scheduler.jobs.retry({ endpointId: world.endpoint, jobId: dispatch.jobId }, world.gateway(), done));
  await world.cancel(dispatch.jobId);
  const posts = [await receiver.next(), await receiver.next()];
  t.deepEqual(
    posts.map((post) => [post.headers['webhook-id'], payloadOf(post)['status']]),
    [
      ['job-1_1', 'FAILED'],
      ['job-1_2', 'CANCELLED'],
    ],
  );
});

async function status(world: WebhookWorld, jobId: string): Promise<string> {
  const { result } = await world.channel.ask(world.endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
  if (result?.$case === 'job') return result.value.state.replace('JOB_STATE_', '');
  return result?.$case === 'failure' ? result.value.code : 'nothing';
}
