/** `capstan alerts` through a gateway, and the command that an alert about failed jobs names. */
import { join } from 'node:path';

import test from 'ava';

import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { WebhookWorld } from '../integration/webhook-world.ts';
import { folderOf } from '../support/folder.ts';
import { gatewayOf } from '../support/gateway.ts';
import { Receiver } from '../support/receiver.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

test('channels are added, listed, tested and removed, and no output has the path of a URL; failed jobs are retried at once', async (t) => {
  const receiver = await Receiver.open(t, [500, 200]);
  const world = await WebhookWorld.open(t);
  const url = await gatewayOf(t, world.scheduler);
  const printed: string[] = [];
  const tool = async (args: readonly string[], input = '/dev/null') => {
    // The tool reads its stdin from a file.
    const command = ['-c', 'exec "$0" "$@" < "$INPUT"', process.execPath, bin, ...args, '--url', url];
    const running = run(command, { program: 'sh', env: { SERVICE_API_KEY: world.scheduler.secret('api-key'), INPUT: input } });
    const code = await running.ended;
    printed.push(running.stdout(), running.stderr());
    return { code, stdout: running.stdout(), stderr: running.stderr() };
  };

  const file = join(await folderOf(t, { 'slack-url': `${receiver.url('/services/s3cr3t')}\n` }), 'slack-url');
  const shown = `http://127.0.0.1:${receiver.port}/***`;
  const added = await tool(['alerts', 'add', '--json'], file);
  const channel = JSON.parse(added.stdout) as { id: string };
  t.like(channel, { kind: 'WEBHOOK', address: shown, wholeService: true, open: 0, failure: null });
  const listed = await tool(['alerts', 'list']);
  t.true(listed.stdout.includes(`${channel.id}  webhook  ${shown}  the whole service`), listed.stdout);
  const refused = await tool(['alerts', 'test', channel.id]);
  t.not(refused.code, 0);
  t.regex(refused.stderr, /the test message was not delivered: the receiver responded with status 500/);
  t.is((await tool(['alerts', 'test', channel.id])).stderr, '✓ Delivered the test message\n');
  const mail = await tool(['alerts', 'add', 'oncall@example.com']);
  t.regex(mail.stderr, /address: this service sends no e-mail/);
  t.is((await tool(['alerts', 'remove', channel.id])).stderr, `✓ No more alerts go to ${shown}\n`);
  t.deepEqual(JSON.parse((await tool(['alerts', 'list', '--json'])).stdout), []);
  t.false(printed.join('').includes('s3cr3t'));

  for (let n = 0; n < 2; n++) await world.end(await world.dispatched(''), { outcome: AttemptOutcome.FAILED, error: 'no' });
  t.is((await tool(['jobs', 'retry', 'echo', '--failed'])).stderr, '✓ Retrying 2 jobs\n');
  t.is((await tool(['jobs', 'retry', 'echo', '--failed'])).stderr, '✓ Retrying 0 jobs\n');
  t.regex((await tool(['jobs', 'retry', 'echo'])).stderr, /job: specify the id of a job, or --failed/);
});
