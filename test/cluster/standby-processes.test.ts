/** Schedulers as processes, as a supervisor starts them: what they say that they are, and who serves after the owner ended. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import { errorTable } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { prepareDataFolder } from '../../scheduler/secrets/data-folder.ts';
import { copyOfSecrets } from '../support/schedulers.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

await withPostgres('schedulers as processes', tests);

function tests(server: PostgresServer): void {
  for (const [how, signal] of [
    ['is told to end', 'SIGTERM'],
    ['is killed', 'SIGKILL'],
  ] as const) {
    test(`a standby is ready for its supervisor, and says that it serves when the owner ${how}`, async (t) => {
      const start = await schedulers(t, server);
      const owner = await start();
      t.like(await owner.said('ready'), { role: 'owner' });
      const standby = await start();
      const ready = await standby.said('ready');
      t.like(ready, { role: 'standby' });
      t.like(await lookUp(t, ready.address, owner.apiKey), { code: 'NOT_OWNER', owner: (await owner.said('ready')).address });

      const exit = once(owner.process, 'exit');
      owner.process.kill(signal);
      t.like(await standby.said('role'), { role: 'owner' });
      t.deepEqual(await exit, signal === 'SIGTERM' ? [0, null] : [null, 'SIGKILL']);
      t.is(await lookUp(t, ready.address, owner.apiKey), null, 'it knows the keys of the queue');
    });
  }

  test('an owner whose database lacks what it acknowledged ends with a code of its own, and says why', async (t) => {
    const owner = await (await schedulers(t, server))();
    await owner.said('ready');
    const exit = once(owner.process, 'exit');
    await server.query(owner.store, 'UPDATE capstan.cells SET term = 1, batch = 0');
    t.like(await owner.said('failed'), { code: 'DATA_LOST' });
    t.deepEqual(await exit, [errorTable.DATA_LOST.exit, null]);
  });

  test('schedulers that are told to end at once, and twice, all end with 0', async (t) => {
    const start = await schedulers(t, server);
    const all = [await start(), await start(), await start()];
    for (const each of all) await each.said('ready');
    const exits = all.map(({ process }) => once(process, 'exit'));
    for (const { process } of all) process.kill('SIGTERM');
    for (const { process } of all) process.kill('SIGTERM');
    t.deepEqual(await Promise.all(exits), [
      [0, null],
      [0, null],
      [0, null],
    ]);
  });
}

interface Message {
  readonly type: string;
  readonly role: string;
  readonly address: string;
}

interface Started {
  readonly process: ChildProcess;
  readonly apiKey: string;
  /** Address of the database. */
  readonly store: string;
  /** The first message of this type, waiting for it. */
  said(type: string): Promise<Message>;
}

/** Starts schedulers on one database, each with the secrets of the first. */
async function schedulers(t: ExecutionContext, server: PostgresServer): Promise<() => Promise<Started>> {
  const store = await server.newDatabase();
  const blobDir = await folderOf(t);
  const { path, secrets } = await prepareDataFolder(await folderOf(t));
  return async () => {
    const child = spawn(process.execPath, [tool, 'scheduler'], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        PATH: process.env['PATH'],
        CAPSTAN_SUPERVISED: '1',
        CAPSTAN_STORE: store,
        CAPSTAN_BLOB_DIR: blobDir,
        CAPSTAN_BLOB_DIR_SHARED: 'true',
        CAPSTAN_GRPC_PORT: '0',
        CAPSTAN_LOG_LEVEL: 'error',
        CAPSTAN_DATA_DIR: await copyOfSecrets(t, path),
      },
    });
    t.teardown(() => child.kill('SIGKILL'));
    const messages: Message[] = [];
    const waiting: (() => void)[] = [];
    child.on('message', (message) => {
      messages.push(message as Message);
      for (const wake of waiting.splice(0)) wake();
    });
    return {
      process: child,
      apiKey: secrets.apiKey,
      store,
      async said(type) {
        for (;;) {
          const found = messages.find((message) => message.type === type);
          if (found !== undefined) return found;
          await new Promise<void>((resolve) => waiting.push(resolve));
        }
      },
    };
  };
}

/** Lists endpoints; null if that worked. */
async function lookUp(t: ExecutionContext, address: string, key: string): Promise<ReturnType<typeof fromServiceError> | null> {
  const client = new ControlServiceClient(address, credentials.createInsecure());
  t.teardown(() => client.close());
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${key}`);
  const error = await new Promise<ServiceError | null>((resolve) => client.listEndpoints({ environment: '' }, metadata, resolve));
  return error === null ? null : fromServiceError(error);
}
