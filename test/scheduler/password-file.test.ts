/** The password of the store's database comes from the file of passwords, without a deprecation of pg in the logs. */
import { chmod } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import { StoreClient } from '../../scheduler/store/postgres/store-client.ts';
import { folderOf } from '../support/folder.ts';

/** `R`, its length and 3: the server requests the password as text. */
const REQUEST = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]);

test('the line of the address is sent, and nothing is deprecated', async (t) => {
  const warnings: string[] = [];
  process.on('warning', ({ message }) => warnings.push(message));
  const sent = Promise.withResolvers<string>();
  const server = createServer((socket) => {
    socket.once('data', () => {
      socket.write(REQUEST);
      socket.once('data', (message: Buffer) => {
        sent.resolve(message.subarray(5, -1).toString());
        socket.destroy();
      });
    });
    socket.on('error', () => undefined);
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const folder = await folderOf(t, { pgpass: `other:*:*:*:no\n*:${port}:capstan:me:pass\\:word\n` });
  await chmod(join(folder, 'pgpass'), 0o600);
  process.env['PGPASSFILE'] = join(folder, 'pgpass');
  const client = new StoreClient({ host: '127.0.0.1', port, user: 'me', database: 'capstan' });
  client.on('error', () => undefined);
  await t.throwsAsync(client.connect());
  t.is(await sent.promise, 'pass:word');
  t.deepEqual(warnings, []);
});
