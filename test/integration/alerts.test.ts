/** Accounts are told of incidents: once each, and once of the end, by webhooks and e-mail (scheduler/alerts). */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';

import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { AlertChannelKind, KeyScope, type AlertChannel } from '../../proto/gen/capstan/v1/control.ts';
import type { SchedulerDeps } from '../../scheduler/assembly/start.ts';
import { knowsPaused, pausedJob, textOf } from '../support/paused-job.ts';
import { Receiver } from '../support/receiver.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

/** Hosts need no time to return: none joins. */
const SETTINGS = { alertDelayMs: 0, webhookAllow: '127.0.0.0/8', publicUrl: 'https://capstan.example', nodeGraceMs: 100 };

async function open(t: ExecutionContext, settings: Record<string, unknown> = {}, deps: SchedulerDeps = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open({ ...SETTINGS, ...settings }, deps);
  t.teardown(() => scheduler.close());
  return scheduler;
}

function add(
  scheduler: TestScheduler,
  address: string,
  kind: AlertChannelKind = AlertChannelKind.WEBHOOK,
  token = scheduler.secret('api-key'),
): Promise<AlertChannel> {
  return unary((done) => scheduler.control.addAlertChannel({ kind, address }, scheduler.bearer(token), done));
}

async function channels(scheduler: TestScheduler, token = scheduler.secret('api-key')): Promise<readonly AlertChannel[]> {
  const { channels: found } = await unary<{ channels: AlertChannel[] }>((done) =>
    scheduler.control.listAlertChannels({}, scheduler.bearer(token), done),
  );
  return found;
}

test('an incident is one message, also over a restart, and its end is another one', async (t) => {
  const receiver = await Receiver.open(t);
  const scheduler = await open(t);
  await add(scheduler, receiver.url('/services/T0/B0/secret'));
  const { remove } = await pausedJob(scheduler);
  const first = textOf(await receiver.next());
  t.regex(first, /^🟡 warning: echo: it is paused \(workersMax is 0\), and 1 job waits, since 20/);
  t.regex(first, /Resume: capstan endpoints set echo workersMax=1/);
  t.regex(first, /https:\/\/capstan\.example\/console\/docs\/runbook\.md#an-endpoint-is-paused-while-jobs-wait/);
  t.is((await channels(scheduler))[0]?.open, 1);
  await scheduler.restart();
  // What follows the restart is the end, and nothing else.
  await knowsPaused(scheduler);
  await remove();
  const second = textOf(await receiver.next());
  t.regex(second, /^🟢 over: echo: it is paused/);
  t.is(receiver.received.length, 2);
  await until('nothing is open', async () => (await channels(scheduler))[0]?.open === 0);
});

test('addresses obey the rule of webhooks, are bounded, and are never shown or logged', async (t) => {
  const lines: string[] = [];
  const receiver = await Receiver.open(t, [500, 200]);
  const scheduler = await open(
    t,
    { webhookAllow: '127.0.0.1/32' },
    { log: pino({ level: 'trace' }, { write: (line: string) => lines.push(line) }) },
  );
  for (const [address, rule] of [
    ['http://10.0.0.1/hook', /^address: must not resolve to a private address/],
    ['ftp://example.com', /^address: must be an http or https URL/],
    [`http://example.com/${'x'.repeat(3_000)}`, /^address: must have at most 2048 characters/],
  ] as const)
    t.regex((await t.throwsAsync(add(scheduler, address)))?.message ?? '', rule);
  const mail = await t.throwsAsync(add(scheduler, 'oncall@example.com', AlertChannelKind.EMAIL));
  t.regex(mail?.message ?? '', /^address: this service sends no e-mail; an operator can set CAPSTAN_SMTP_URL/);
  const channel = await add(scheduler, receiver.url('/services/T0/s3cr3t?token=s3cr3t'));
  t.is(channel.address, `http://127.0.0.1:${receiver.port}/***`);
  const send = (id: string): Promise<{ error: string }> =>
    unary((done) => scheduler.control.testAlertChannel({ id }, scheduler.bearer(scheduler.secret('api-key')), done));
  t.regex((await send(channel.id)).error, /^the receiver responded with status 500/);
  t.is((await send(channel.id)).error, '');
  t.regex(textOf(receiver.received[1] ?? t.fail()), /This is a test of the alerts of account default/);
  t.deepEqual((await receiver.next()).url, '/services/T0/s3cr3t?token=s3cr3t');
  for (let n = 1; n < 10; n++) await add(scheduler, receiver.url(`/${n}`));
  t.regex((await t.throwsAsync(add(scheduler, receiver.url('/11'))))?.message ?? '', /^address: the account already has 10 alert channels/);
  t.false([...lines, JSON.stringify(await channels(scheduler), (_key, value: unknown) => String(value))].join('').includes('s3cr3t'));
});

test('accounts see and are told of their own alone, and keys that only read change nothing', async (t) => {
  const receiver = await Receiver.open(t);
  const scheduler = await open(t);
  const { keyText } = await unary<{ keyText: string }>((done) =>
    scheduler.control.createAccount({ id: 'team', workerQuota: 0 }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  const own = await add(scheduler, receiver.url('/team'), AlertChannelKind.WEBHOOK, keyText);
  t.false(own.wholeService);
  await add(scheduler, receiver.url('/operator'));
  t.deepEqual(
    (await channels(scheduler, keyText)).map(({ id }) => id),
    [own.id],
  );
  await pausedJob(scheduler);
  t.is((await receiver.next()).url, '/operator');
  const { id } = (await channels(scheduler))[0] ?? {};
  const removed = unary((done) => scheduler.control.removeAlertChannel({ id: id ?? '' }, scheduler.bearer(keyText), done));
  t.regex((await t.throwsAsync(removed))?.message ?? '', /^id: alert channel .* does not exist/);
  const { text } = await unary<{ text: string }>((done) =>
    scheduler.control.createKey(
      { name: 'r', scope: KeyScope.READ_ONLY, endpoints: [], environment: '', expiresInS: 0, account: '' },
      scheduler.bearer(scheduler.secret('api-key')),
      done,
    ),
  );
  await t.throwsAsync(add(scheduler, receiver.url('/x'), AlertChannelKind.WEBHOOK, text));
});

test('alerts go out by e-mail, and an error of the mail server does not show its password', async (t) => {
  const mails = await mailServer(t);
  const scheduler = await open(t, { smtpUrl: `smtp://127.0.0.1:${mails.port}`, smtpFrom: 'Capstan <capstan@example.com>' });
  await t.throwsAsync(TestScheduler.open({ smtpUrl: 'smtp://x' }), { message: /CAPSTAN_SMTP_FROM/ });
  for (const address of ['a@b.example, c@d.example', 'a@b.example\nBcc: c@d.example', 'Name <a@b.example>', 'a\u0000b@c.example', 'nobody'])
    await t.throwsAsync(add(scheduler, address, AlertChannelKind.EMAIL), { message: /^address: must be one e-mail address/ });
  const channel = await add(scheduler, 'oncall@example.com', AlertChannelKind.EMAIL);
  t.is(channel.address, 'oncall@example.com');
  const send = (): Promise<{ error: string }> =>
    unary((done) => scheduler.control.testAlertChannel({ id: channel.id }, scheduler.bearer(scheduler.secret('api-key')), done));
  t.is((await send()).error, '');
  await t.throwsAsync(send, { message: /another test e-mail was just sent/ }, 'an address need not be its own');
  t.regex(await mails.next(), /^Subject: Capstan: test of alerts/m);
  await pausedJob(scheduler);
  // Its text is encoded as quoted-printable.
  const mail = (await mails.next()).replaceAll('=\n', '').replaceAll('=3D', '=');
  t.regex(mail, /RCPT TO:<oncall@example\.com>/);
  t.regex(mail, /^Subject: Capstan: echo: it is paused/m);
  t.regex(mail, /capstan endpoints set echo workersMax=1/);
});

/** A mail server that takes everything. */
async function mailServer(t: ExecutionContext): Promise<{ readonly port: number; next(): Promise<string> }> {
  const received: string[] = [];
  let wake = (): void => undefined;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let all = '';
    let inData = false;
    socket.write('220 test\r\n');
    socket.on('data', (chunk: Buffer) => {
      for (const line of chunk.toString().split('\r\n').slice(0, -1)) {
        all += `${line}\n`;
        if (inData && line !== '.') continue;
        if (inData) {
          received.push(all);
          all = '';
          wake();
        }
        inData = line === 'DATA';
        socket.write(inData ? '354 go on\r\n' : '250 OK\r\n');
      }
    });
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const next = async (): Promise<string> => {
    for (;;) {
      const mail = received.shift();
      if (mail !== undefined) return mail;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  return { port: (server.address() as AddressInfo).port, next };
}
