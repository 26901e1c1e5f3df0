/** Commands of the tool about environments, the secret of webhooks and cells, through a gateway. */
import { join } from 'node:path';

import test from 'ava';

import { gatewayOf } from '../support/gateway.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

test('environments are created, the secret of webhooks is replaced, and cells without PostgreSQL are one', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const url = await gatewayOf(t, scheduler);
  const tool = async (...args: string[]) => {
    const running = run([bin, ...args, '--url', url], { env: { SERVICE_API_KEY: scheduler.secret('api-key') } });
    return { code: await running.ended, stdout: running.stdout(), stderr: running.stderr() };
  };

  t.like(await tool('env', 'create', 'staging'), {
    code: 0,
    stderr: '✓ Created environment staging\nnext: capstan deploy <folder> --env staging\n',
  });
  t.deepEqual(
    (JSON.parse((await tool('env', 'list', '--json')).stdout) as { name: string }[]).map(({ name }) => name),
    ['staging'],
  );
  const again = await tool('env', 'create', 'Not a name');
  t.not(again.code, 0);
  t.regex(again.stderr, /^✗ (name|environment): /);

  const before = (await tool('webhooks', 'secret', 'get')).stdout.trim();
  const rotated = await tool('webhooks', 'secret', 'rotate');
  t.is(rotated.code, 0);
  t.regex(rotated.stderr, /^✓ Rotated the secret; webhooks are also signed with the old one until \d{4}-/);
  t.not(rotated.stdout.trim(), before);
  t.is((await tool('webhooks', 'secret', 'get')).stdout, rotated.stdout);

  t.like(JSON.parse((await tool('cell', 'list', '--json')).stdout), [{ name: 'default', accounts: 1 }]);
  for (const [args, rule] of [
    [['cell', 'create', 'west'], /PostgreSQL/],
    [['cell', 'move-account', 'team', 'west'], /team|west|PostgreSQL/],
    [['cell', 'assign-node', 'nowhere', '--cell', 'west'], /nowhere/],
    [['cell', 'assign-node', 'nowhere'], /--cell: is required/],
  ] as const) {
    const refused = await tool(...args);
    t.not(refused.code, 0, args.join(' '));
    t.regex(refused.stderr, rule, args.join(' '));
  }
});
