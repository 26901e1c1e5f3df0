/** Names of API keys and join tokens are one line of printable characters; those of earlier versions stay readable. */
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';

import * as control from '../../proto/gen/capstan/v1/control.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

const FORGING = 'ci\u001b[2K\r\u202egnp\n✓ forged';
const RULE = 'must be one line of printable characters; character';

async function open(): Promise<{ scheduler: TestScheduler; names: Record<'key' | 'token', (name: string) => Promise<object>> }> {
  const scheduler = await TestScheduler.open();
  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  return {
    scheduler,
    names: {
      key: async (name) =>
        unary<object>((done) =>
          scheduler.control.createKey(control.CreateKeyRequest.fromPartial({ name, scope: control.KeyScope.ALL }), metadata, done),
        ),
      token: async (name) =>
        unary<object>((done) =>
          scheduler.control.createJoinToken({ name, expiresInS: 0, maxUses: 0, neverExpires: false }, metadata, done),
        ),
    },
  };
}

test('a name with controls, bidirectional controls or line breaks is refused, with the field, the rule and the place', async (t) => {
  const { scheduler, names } = await open();
  t.teardown(() => scheduler.close());
  const refused: readonly (readonly [string, string])[] = [
    ['a\nb', `name: ${RULE} 2 is U+000A`],
    ['ends\n', `name: ${RULE} 5 is U+000A`],
    ['\u001b[31mred', `name: ${RULE} 1 is U+001B`],
    ['a\u0000', `name: ${RULE} 2 is U+0000`],
    ['a\u009bm', `name: ${RULE} 2 is U+009B`],
    ['x\u202egnp.exe', `name: ${RULE} 2 is U+202E`],
    ['x\u2066y', `name: ${RULE} 2 is U+2066`],
    ['x\u2028y', `name: ${RULE} 2 is U+2028`],
    ['x\u200by', `name: ${RULE} 2 is U+200B`],
    ['x'.repeat(129), 'name: must have at most 128 characters, not 129'],
  ];
  const allowed = ['<img src=x onerror="alert(1)">\'"&', 'é'.repeat(128), 'שלום', 'crane 🏗️', 'build-hosts'];
  for (const [kind, create] of Object.entries(names)) {
    for (const [name, details] of refused) {
      const refusal = { code: 'INVALID_ARGUMENT', message: (text: string) => text.includes(details) };
      await t.throwsAsync(create(name), refusal, `${kind} ${JSON.stringify(name)}`);
    }
    for (const name of allowed) await t.notThrowsAsync(create(name), `${kind} ${name}`);
  }
  await t.throwsAsync(names.key(' '), { message: /name: must be a non-empty string/ });
  await t.notThrowsAsync(names.token(''), 'a join token needs no name');
});

test('names that an earlier version admitted are listed as they are, and their keys and tokens are revoked', async (t) => {
  const { scheduler, names } = await open();
  t.teardown(() => scheduler.close());
  await names.key('old');
  await names.token('old');
  await scheduler.handle.close();
  const db = new Database(join(scheduler.dataDir, 'scheduler', 'capstan.db'));
  t.is(db.prepare("UPDATE control SET value = json_set(value, '$.name', ?) WHERE value ->> 'name' = 'old'").run(FORGING).changes, 2);
  db.close();
  await scheduler.restart();
  const { control: client } = scheduler;
  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  const { keys } = await unary<control.ListKeysResponse>((done) => client.listKeys({ account: '' }, metadata, done));
  const { tokens } = await unary<control.ListJoinTokensResponse>((done) =>
    client.listJoinTokens({ afterId: '', limit: 0 }, metadata, done),
  );
  const [key, token] = [keys.find(({ name }) => name === FORGING), tokens.find(({ name }) => name === FORGING)];
  t.truthy(key);
  t.truthy(token);
  await t.notThrowsAsync(unary((done) => client.revokeKey({ id: key?.id ?? '', account: '' }, metadata, done)));
  await t.notThrowsAsync(unary((done) => client.revokeJoinToken({ id: token?.id ?? '' }, metadata, done)));
});
