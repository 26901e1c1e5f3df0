/** Sockets that go to another process leave nothing behind in this one, however many servers accepted them. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import { stopReading } from '../../agent/runtimes/reading/unread-socket.ts';
import { folderOf } from '../support/folder.ts';

/** Says what it reads of each socket. */
const CHILD = `process.on('message', (message, socket) => socket.on('data', (data) => process.send(String(data))));`;

test('a process that is handed accepted sockets gets no listener for each of their servers', async (t) => {
  const folder = await folderOf(t, { 'child.cjs': CHILD });
  const child = fork(join(folder, 'child.cjs'));
  t.teardown(() => child.kill('SIGKILL'));
  const before = child.listenerCount('exit');
  for (let n = 0; n < 12; n += 1) {
    const server = createServer();
    const path = join(folder, `${n}.sock`);
    server.listen(path);
    await once(server, 'listening');
    const client = connect(path);
    const [accepted] = (await once(server, 'connection')) as [Socket];
    t.is(stopReading(accepted), undefined);
    const said = once(child, 'message');
    child.send({ n }, accepted, { keepOpen: true });
    client.write(`line ${n}`);
    t.deepEqual(await said, [`line ${n}`, undefined]);
    client.destroy();
    accepted.destroy();
    server.close();
  }
  t.is(child.listenerCount('exit'), before);
});
