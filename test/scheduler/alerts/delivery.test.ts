/** E-mails of alerts by mail servers that refuse them (scheduler/alerts/delivery.ts). */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

import test, { type ExecutionContext } from 'ava';

import { AlertDelivery } from '../../../scheduler/alerts/delivery.ts';
import { testMessage } from '../../../scheduler/alerts/message.ts';
import { AddressGuard, parseAllowList } from '../../../scheduler/webhooks/guard.ts';
import type { PostResult } from '../../../scheduler/webhooks/post.ts';

/** What the server heard, and where it is. It offers a password without TLS, and quotes the password in its refusal. */
async function mailServer(t: ExecutionContext): Promise<{ readonly heard: string[]; readonly port: number; close(): void }> {
  const heard: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.write('220 test\r\n');
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      const line = chunk.toString();
      heard.push(line);
      if (line.startsWith('EHLO')) socket.write('250-test\r\n250 AUTH PLAIN\r\n');
      else socket.write(line.startsWith('AUTH') ? '535 s3@cret is not the password of relay\r\n' : '502 unknown\r\n');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  t.teardown(close);
  return { heard, port: (server.address() as AddressInfo).port, close };
}

function send(url: string): Promise<PostResult> {
  const delivery = new AlertDelivery({
    guardOf: () => new AddressGuard(parseAllowList('')),
    resolve: () => Promise.resolve([]),
    connectMs: 5_000,
    totalMs: 5_000,
    userAgent: 'test',
    mail: { url, from: 'capstan@example.com' },
  });
  return delivery.once({ account: 'acc', kind: 'EMAIL', address: 'oncall@example.com' }, testMessage('acc'));
}

test('a password goes to a mail server over TLS alone, unless its URL permits it, and no error shows it', async (t) => {
  const server = await mailServer(t);
  const url = `smtp://relay:s3%40cret@127.0.0.1:${server.port}`;
  t.is((await send(url)).result, 'failed');
  t.false(
    server.heard.some((line) => line.startsWith('AUTH')),
    server.heard.join(''),
  );
  const refused = await send(`${url}?requireTLS=false`);
  t.deepEqual(refused, { result: 'failed', error: 'the mail server replied: 535 *** is not the password of ***', refused: false });
  t.true(server.heard.some((line) => line.startsWith('AUTH')));
});

test('an account reads what failed at the mail server, without the address of the server', async (t) => {
  const server = await mailServer(t);
  server.close();
  const { error } = { error: '', ...(await send(`smtp://127.0.0.1:${server.port}`)) };
  t.regex(error, /^the mail server of CAPSTAN_SMTP_URL cannot be used \(E[A-Z]+\)$/);
  t.regex({ error: '', ...(await send(`smtp://a:%ZZ@127.0.0.1:${server.port}`)) }.error, /cannot be used/);
});
