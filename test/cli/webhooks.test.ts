/** `capstan webhooks` through a gateway, and what `capstan up` opens for webhooks. */
import { join } from 'node:path';

import test from 'ava';

import { readSettings } from '../../terminal/config.ts';
import { stackPlans } from '../../supervisor/plans.ts';
import { WebhookWorld } from '../integration/webhook-world.ts';
import { gatewayOf } from '../support/gateway.ts';
import { Receiver } from '../support/receiver.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `capstan webhooks …` against a gateway with the operator's key. */
function toolFor(url: string, world: WebhookWorld): (...args: string[]) => Promise<Ended> {
  return async (...args) => {
    const running = run([bin, 'webhooks', ...args, '--url', url], { env: { SERVICE_API_KEY: world.scheduler.secret('api-key') } });
    const code = await running.ended;
    return { code, stdout: running.stdout(), stderr: running.stderr() };
  };
}

test.serial('lists what is not delivered, sends it anew, and shows the secret', async (t) => {
  const receiver = await Receiver.open(t, [500, 503, 500, 200]);
  const world = await WebhookWorld.open(t);
  const webhooks = toolFor(await gatewayOf(t, world.scheduler), world);
  t.deepEqual(JSON.parse((await webhooks('list', '--json')).stdout), []);

  const id = await world.completed(receiver.url());
  await world.tried(id, 1);
  const nextTry = new Date(world.clock.now().wall + 10_000).toISOString();
  const pending = { id, endpointId: world.endpoint, url: receiver.url(), state: 'pending', tries: 1, nextTry, keptUntil: null };
  t.deepEqual(JSON.parse((await webhooks('list', '--json')).stdout), [
    { ...pending, error: 'the receiver responded with status 500, not 200' },
  ]);

  for (const tries of [2, 3]) {
    world.clock.advance(10_000);
    await world.tried(id, tries);
  }
  const listed = await webhooks('list');
  t.is(listed.code, 0);
  t.regex(listed.stdout, new RegExp(`^${id} +failed +3 +- +${receiver.url()} +the receiver responded with status 500, not 200$`, 'm'));
  t.is(listed.stderr, 'next: capstan webhooks redeliver --failed\n');

  t.is((await webhooks('redeliver', '--failed')).stderr, '✓ Redelivering 1 webhook\nnext: capstan webhooks list\n');
  await world.delivered();
  t.deepEqual(JSON.parse((await webhooks('redeliver', 'failed', '--json')).stdout), { redelivered: [] });
  t.is((await webhooks('redeliver', id)).code, 66);

  const secret = await webhooks('secret', 'get');
  t.regex(secret.stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/);
  t.deepEqual(JSON.parse((await webhooks('secret', 'get', '-o', 'json')).stdout), { secret: secret.stdout.trim() });

  const rotated = await webhooks('secret', 'rotate');
  t.regex(rotated.stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/);
  t.not(rotated.stdout, secret.stdout);
  const until = new Date(world.clock.now().wall + 86_400_000).toISOString();
  t.is(rotated.stderr, `✓ Rotated the secret; webhooks are also signed with the old one until ${until}\n`);
  t.is((await webhooks('secret')).stdout, rotated.stdout);
});

test.serial('a wrong action and a missing id are mistakes', async (t) => {
  for (const [args, message] of [
    [['retry'], "✗ unknown command 'retry'\n"],
    [['list', '--rotate'], "✗ unknown option '--rotate'\n"],
    [['redeliver'], '✗ webhook: specify the id of a webhook, or --failed for every failed webhook\n'],
    [['redeliver', 'id', '--failed'], '✗ webhook: specify the id of a webhook, or --failed for every failed webhook\n'],
  ] as const) {
    const running = run([bin, 'webhooks', ...args]);
    t.is(await running.ended, 2);
    t.true(running.stderr().startsWith(message));
  }
});

test('capstan up on loopback lets webhooks of the operator’s account come back to it, and keeps what the operator opened', (t) => {
  const opened = (variables: Record<string, string>): string | undefined => {
    const environment = { variables, cwd: import.meta.dirname };
    const plans = stackPlans(readSettings({}, environment), environment);
    return plans.find(({ name }) => name === 'scheduler')?.command(new Map([['scheduler', '127.0.0.1:1']])).env[
      'CAPSTAN_WEBHOOK_ALLOW_OPERATOR'
    ];
  };
  t.is(opened({}), '127.0.0.0/8,::1');
  t.is(opened({ CAPSTAN_WEBHOOK_ALLOW_OPERATOR: '10.0.0.0/8' }), '10.0.0.0/8,127.0.0.0/8,::1');
  t.is(opened({ CAPSTAN_HTTP_HOST: '0.0.0.0' }), '');
  // A proxy on this host lets others in.
  t.is(opened({ CAPSTAN_TRUSTED_PROXIES: '127.0.0.1' }), '');
  t.is(opened({ CAPSTAN_PUBLIC_URL: 'https://api.example.org' }), '');
  t.is(opened({ CAPSTAN_PUBLIC_URL: 'http://localhost:8080' }), '127.0.0.0/8,::1');
  t.is(opened({ CAPSTAN_HTTP_HOST: '192.168.0.1', CAPSTAN_WEBHOOK_ALLOW_OPERATOR: '10.0.0.0/8' }), '10.0.0.0/8');
});
