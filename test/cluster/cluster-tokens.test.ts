/** Tokens in the folders of several schedulers: what gateways, nodes and workers hold is valid at every owner. */
import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';

import test from 'ava';
import { pino, type Logger } from 'pino';

import type { DirectoryUpdate, MasterKeyInfo } from '../../proto/gen/capstan/v1/control.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestSession, unary, type TestScheduler } from '../support/scheduler-client.ts';
import { copyOfSecrets } from '../support/schedulers.ts';
import { openScheduler, serving, stop } from '../support/several-schedulers.ts';
import { until } from '../support/until.ts';

await withPostgres('cluster tokens', tests);

function tests(server: PostgresServer): void {
  test('a standby with tokens of its own takes those of the queue, and locks nobody out', async (t) => {
    const shared = { store: await server.newDatabase(), blobDir: await folderOf(t), isBlobDirShared: 'true' };
    const owner = await openScheduler(t, shared);
    const gatewayToken = owner.secret('gateway-token');
    const node = await owner.join('host');
    const dataDir = await copyOfSecrets(t, owner.dataDir);
    const own = { 'gateway-token': 'another-gateway-token-of-the-standby', 'join-token': 'another-join-token-of-the-standby' };
    for (const [name, text] of Object.entries(own)) await writeFile(join(dataDir, 'secrets', name), `${text}\n`);

    let said = '';
    const starting = openScheduler(
      t,
      { ...shared, dataDir },
      logTo((line) => (said += line)),
    );
    // While it still stands by: a gateway beside it reads the file, too.
    await until(
      'its file is the queue’s',
      async () => (await readFile(join(dataDir, 'secrets', 'gateway-token'), 'utf8')).trim() === gatewayToken,
    );
    await stop(owner);
    const next = await serving(await starting);
    t.is(await directory(next, gatewayToken), 'reset');
    await t.throwsAsync(directory(next, own['gateway-token']), { message: /UNAUTHENTICATED|not valid/ });
    t.true(await isAccepted(next, node.credentials), 'a node that joined before');

    const joining = unary((done) => next.nodes.join({ joinToken: own['join-token'], name: 'stranger' }, done));
    await t.throwsAsync(joining, { code: 'UNAUTHENTICATED' });
    t.regex(said, /the gateway token of this folder was not the queue's/);
    t.regex(said, /the join token in this folder does not belong to this queue/);
    for (const secret of [gatewayToken, ...Object.values(own)]) t.false(said.includes(secret));
  });

  test('an operator changes the gateway token on one host; it survives a rotation of the master key', async (t) => {
    const shared = { store: await server.newDatabase(), blobDir: await folderOf(t), isBlobDirShared: 'true' };
    const owner = await openScheduler(t, shared);
    const before = owner.secret('gateway-token');
    const standbyFolder = await copyOfSecrets(t, owner.dataDir);
    const file = join(owner.dataDir, 'secrets', 'gateway-token.next');
    await writeFile(file, 'short\n');
    await t.throwsAsync(owner.restart(), { code: 'CONFIG', message: /gateway-token\.next: must be 16 to 256 printable/ });
    await writeFile(file, 'the-new-token-of-all-gateways\n');
    await owner.restart();
    t.is(owner.secret('gateway-token'), 'the-new-token-of-all-gateways');
    // And again, while it serves.
    const changed = 'the-next-token-of-all-gateways';
    await writeFile(file, `${changed}\n`);
    await until('it is the token', () => owner.secret('gateway-token') === changed && !existsSync(file));
    t.is(await directory(owner, changed), 'reset');
    await t.throwsAsync(directory(owner, before), { message: /UNAUTHENTICATED|not valid/ });

    await unary<MasterKeyInfo>((done) => owner.control.rotateMasterKey({}, owner.bearer(owner.secret('api-key')), done));
    await cp(join(owner.dataDir, 'secrets', 'master-key'), join(standbyFolder, 'secrets', 'master-key'));
    await stop(owner);
    const standby = await serving(await openScheduler(t, { ...shared, dataDir: standbyFolder }));
    t.is(standby.secret('gateway-token'), changed);
    t.is(await directory(standby, changed), 'reset');
  });
}

/** A gateway's first call: what its stream begins with. */
function directory(scheduler: TestScheduler, token: string): Promise<string> {
  const call = scheduler.control.watchDirectory({}, scheduler.bearer(token));
  return new Promise((resolve, reject) => {
    call.once('data', ({ reset }: DirectoryUpdate) => {
      resolve(reset ? 'reset' : 'update');
      call.cancel();
    });
    call.on('error', reject);
  });
}

/** Whether the scheduler accepts a node of before. */
async function isAccepted(scheduler: TestScheduler, credentials: ReturnType<TestScheduler['bearer']>): Promise<boolean> {
  const session = new TestSession(scheduler.nodes.session(credentials), {});
  await session.take('desired');
  session.close();
  return true;
}

function logTo(said: (text: string) => void): Logger {
  return pino(
    new Writable({
      write(chunk, _encoding, done) {
        said(String(chunk));
        done();
      },
    }),
  );
}
