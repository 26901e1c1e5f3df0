/** The gateway with a certificate of its own: the API and every endpoint's host by HTTPS, and a renewal while it serves. */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';

import test from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ownFolder } from '../support/own-folder.ts';
import { until } from '../support/until.ts';
import { FakeAgent, schedulers } from './fake-agent.ts';
import { FakeScheduler, TOKEN } from './fake-scheduler.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { KEY, startGateway } from './harness.ts';
import { addWeb } from './lb-harness.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const folder = await ownFolder('capstan-https');
const file = (name: string): string => join(folder, name);
test.before(() => {
  if (!hasOpenssl) return;
  for (const name of ['first', 'second']) {
    const names = 'subjectAltName=DNS:gateway.test,DNS:*.lb.test';
    const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-addext', names];
    execFileSync('openssl', [...args, '-subj', `/CN=${name}`, '-keyout', file(`${name}.key`), '-out', file(`${name}.crt`)], {
      stdio: 'pipe',
    });
  }
});
test.after.always(() => rmSync(folder, { recursive: true, force: true }));

/** A caller that finds every name at the gateway, and checks its certificate for it. */
async function call(url: string, host: string, path: string, ca: Buffer): Promise<{ status: number; text: string; subject: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string; subject: string }>();
  const { port } = new URL(url);
  const headers = { host: `${host}:${port}`, authorization: `Bearer ${KEY}` };
  request({ host: '127.0.0.1', port, path, servername: host, headers, ca, agent: false }, (answer) => {
    const subject = String((answer.socket as TLSSocket).getPeerCertificate().subject.CN);
    const parts: Buffer[] = [];
    answer.on('data', (part: Buffer) => parts.push(part));
    answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(parts).toString(), subject }));
  })
    .on('error', reject)
    .end();
  return promise;
}

const withCertificates = hasOpenssl ? test : test.skip;
const why = hasOpenssl ? '' : ' (skipped: openssl, which makes the certificates, is not installed)';

withCertificates(
  `a wildcard certificate serves the API and the hosts of endpoints, and is renewed while connections live${why}`,
  async (t) => {
    const install = (name: string, part: 'crt' | 'key'): void => copyFileSync(file(`${name}.${part}`), file(`server.${part}`));
    install('first', 'crt');
    install('first', 'key');
    const scheduler = await new FakeScheduler().start();
    t.teardown(() => scheduler.stop());
    scheduler.addKey(KEY);
    addWeb(scheduler);
    const overrides = {
      lbDomain: 'lb.test',
      httpTlsCert: file('server.crt'),
      httpTlsKey: file('server.key'),
      httpTlsCheckMs: 10,
      lbWebSocketIdleMs: 200,
    };
    const gateway = await startGateway(t, scheduler, overrides);
    t.regex(gateway.url, /^https:\/\/127\.0\.0\.1:\d+$/);
    const { invokeAddress } = await scheduler.reports.next((report) => report.invokeAddress !== '');
    schedulers.set(invokeAddress, scheduler);
    const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
    agent.onRequest = ({ answer, begin }) => answer(200, begin.scheme);
    scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED);
    const server = new FakeAgent(t, invokeAddress, 'node-2').serve('own', { s1: 1 });
    server.onRequest = ({ send }) => send({ $case: 'head', value: { status: 101, headers: [], body: Buffer.alloc(0), ended: false } });
    const [first, second] = [readFileSync(file('first.crt')), readFileSync(file('second.crt'))];

    t.like(await call(gateway.url, 'gateway.test', '/ping', first), { status: 200, subject: 'first' });
    await until('the directory is known', async () => (await call(gateway.url, 'web.lb.test', '/fn', first)).status === 200);
    t.like(await call(gateway.url, 'web.lb.test', '/fn', first), { text: 'https', subject: 'first' });
    await t.throwsAsync(call(gateway.url, 'web.elsewhere.test', '/fn', first), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });

    // A WebSocket, which nobody uses.
    const socket = connect({ port: Number(new URL(gateway.url).port), ca: first, servername: 'own.lb.test' });
    t.teardown(() => socket.destroy());
    let text = '';
    socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
    const ended = new Promise((resolve) => socket.once('end', resolve));
    const lines = ['GET / HTTP/1.1', 'Host: own.lb.test', `Authorization: Bearer ${KEY}`, 'Connection: Upgrade', 'Upgrade: websocket'];
    socket.write(`${[...lines, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='].join('\r\n')}\r\n\r\n`);
    await ended;
    t.regex(text, /^HTTP\/1\.1 101 /);
    t.true(text.endsWith('\u0003\u00e9idle for 0.2 s'), text);

    const open = connect({ port: Number(new URL(gateway.url).port), ca: first, servername: 'gateway.test' });
    t.teardown(() => open.destroy());
    await new Promise((resolve) => open.once('secureConnect', resolve));
    // Between the two writes they do not belong together: the one before serves on.
    install('second', 'crt');
    t.is((await call(gateway.url, 'gateway.test', '/ping', first)).subject, 'first');
    install('second', 'key');
    await until('the second certificate serves', async () => {
      const { subject } = await call(gateway.url, 'gateway.test', '/ping', Buffer.concat([first, second]));
      return subject === 'second';
    });
    const answer = new Promise<string>((resolve) => open.once('data', (part: Buffer) => resolve(part.toString())));
    open.write('GET /ping HTTP/1.1\r\nHost: gateway.test\r\n\r\n');
    t.regex(await answer, /^HTTP\/1\.1 200 /, 'a connection that was open stays');
  },
);

test('a certificate that cannot serve is refused by name when the gateway starts', async (t) => {
  writeFileSync(file('nonsense'), 'no certificate');
  for (const [files, message] of [
    [{ httpTlsCert: '/nowhere' }, 'CAPSTAN_HTTP_TLS_KEY: is required; certificate and key must be set together'],
    [{ httpTlsCert: '/nowhere', httpTlsKey: '/nowhere' }, 'CAPSTAN_HTTP_TLS_CERT: cannot read /nowhere (ENOENT)'],
    [
      { httpTlsCert: file('nonsense'), httpTlsKey: file('nonsense') },
      /^CAPSTAN_HTTP_TLS_CERT: .*nonsense are not a certificate and its key \(/,
    ],
  ] as const) {
    const settings = readConfig({ port: 0, scheduler: '127.0.0.1:1', token: TOKEN, logLevel: 'silent', ...files }, {});
    t.like(await t.throwsAsync(start(settings), { instanceOf: CapstanError, message }), { code: 'CONFIG' });
  }
});
