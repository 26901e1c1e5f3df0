/** A certificate is renewed by a push that writes files in any order, and wrong at first, while callers connect without a pause. */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { FakeScheduler } from '../gateway/fake-scheduler.ts';
import { KEY, startGateway } from '../gateway/harness.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const withCertificates = hasOpenssl ? test : test.skip;
const why = hasOpenssl ? '' : ' (skipped: openssl, which makes the certificates, is not installed)';
const NAMES = ['first', 'second', 'third'];

function makeCertificates(folder: string): void {
  for (const name of NAMES) {
    const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    const files = ['-keyout', `${name}.key`, '-out', `${name}.crt`];
    const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:gateway.test'];
    execFileSync('openssl', [...args, ...subject, ...files], { cwd: folder, stdio: 'pipe' });
  }
}

withCertificates(`callers connect throughout a push of certificates, whatever it writes first${why}`, async (t) => {
  const folder = await folderOf(t);
  makeCertificates(folder);
  const file = (name: string): string => join(folder, name);
  const ca = NAMES.map((name) => readFileSync(file(`${name}.crt`)));
  const put = (name: string, part: 'crt' | 'key'): void => copyFileSync(file(`${name}.${part}`), file(`server.${part}`));
  put('first', 'crt');
  put('first', 'key');
  const scheduler = await new FakeScheduler().start();
  t.teardown(() => scheduler.stop());
  scheduler.addKey(KEY);
  const gateway = await startGateway(t, scheduler, {
    httpTlsCert: file('server.crt'),
    httpTlsKey: file('server.key'),
    httpTlsCheckMs: 10,
  });
  const { port } = new URL(gateway.url);
  /** The subject of the certificate that a new connection gets. */
  const connect = (): Promise<string> =>
    new Promise((resolve, reject) => {
      request({ host: '127.0.0.1', port, path: '/ping', servername: 'gateway.test', ca, agent: false }, (response) => {
        const subject = String((response.socket as TLSSocket).getPeerCertificate().subject.CN);
        response.resume().once('end', () => resolve(`${response.statusCode ?? 0} ${subject}`));
      })
        .on('error', reject)
        .end();
    });
  const seen: string[] = [];
  const over = new AbortController();
  const calling = (async () => {
    while (!over.signal.aborted) seen.push(await connect().catch(String));
  })();
  const serves = (name: string): Promise<unknown> => until(`the ${name} certificate serves`, () => seen.at(-1) === `200 ${name}`);
  const few = async (): Promise<void> => {
    const from = seen.length;
    await until('more callers connect', () => seen.length > from + 10);
  };
  await serves('first');
  // The key first, then the certificate in two pieces.
  put('second', 'key');
  await few();
  const text = readFileSync(file('second.crt'), 'utf8');
  writeFileSync(file('server.crt'), text.slice(0, 100));
  await few();
  writeFileSync(file('server.crt'), text);
  await serves('second');
  // Files that vanish, and rubbish.
  rmSync(file('server.crt'));
  await few();
  writeFileSync(file('server.crt'), 'no certificate');
  rmSync(file('server.key'));
  await few();
  put('third', 'key');
  put('third', 'crt');
  await serves('third');
  over.abort();
  await calling;
  t.deepEqual(
    seen.filter((how) => !NAMES.some((name) => how === `200 ${name}`)),
    [],
  );
});
