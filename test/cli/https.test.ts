/** A stack whose gateway speaks HTTPS: by which name this host's tool and workers reach it, and what is said of a certificate that is not good here. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import { PING } from '../../client/graphql/gen/operations.ts';
import { connectGateway } from '../../client/gateway-client.ts';
import { QueueApi } from '../../client/queue-api.ts';
import { readSettings } from '../../terminal/config.ts';
import { examine } from '../../cli/doctor/checks.ts';
import { httpBase } from '../../client/local.ts';
import { writeRunFile } from '../../supervisor/run-file.ts';
import { ownBase } from '../../supervisor/own-base.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { ownFolder } from '../support/own-folder.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const withCertificates = hasOpenssl ? test : test.skip;
const why = hasOpenssl ? '' : ' (skipped: openssl, which makes the certificates, is not installed)';
const folder = await ownFolder('capstan-cli-https');
test.after.always(() => rmSync(folder, { recursive: true, force: true }));

/** Path of a self-signed certificate for these names. */
function certificateFor(name: string, names: string, days = '2'): string {
  const [cert, key] = [join(folder, `${name}.crt`), join(folder, `${name}.key`)];
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', days];
  execFileSync('openssl', ['req', '-x509', ...ec, '-subj', '/CN=x', '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', cert], {
    stdio: 'pipe',
  });
  return cert;
}

test('without a certificate it is plain HTTP, at an address of this host', (t) => {
  const base = (variables: Record<string, string>): string => ownBase({ variables, cwd: folder }, '8080');
  t.is(base({}), 'http://127.0.0.1:8080');
  t.is(base({ CAPSTAN_HTTP_HOST: '0.0.0.0' }), 'http://127.0.0.1:8080');
  t.is(base({ CAPSTAN_HTTP_HOST: 'fd00::1' }), 'http://[fd00::1]:8080');
  // A proxy in front of it speaks HTTPS; this host needs no proxy.
  t.is(base({ CAPSTAN_PUBLIC_URL: 'https://api.example.org' }), 'http://127.0.0.1:8080');
});

withCertificates(`with one it is HTTPS, by the public URL, else by a name that the certificate is for${why}`, (t) => {
  const base = (names: string, more: Record<string, string> = {}): string =>
    ownBase({ variables: { CAPSTAN_HTTP_TLS_CERT: certificateFor('named', names), ...more }, cwd: folder }, '8443');
  t.is(base('DNS:api.test', { CAPSTAN_PUBLIC_URL: 'https://api.example.org/' }), 'https://api.example.org');
  t.is(base('DNS:api.test,IP:127.0.0.1'), 'https://127.0.0.1:8443');
  t.is(base('DNS:api.test,DNS:localhost'), 'https://localhost:8443');
  t.is(base('DNS:*.lb.test,DNS:api.test'), 'https://api.test:8443');
  t.is(base('DNS:*.lb.test'), 'https://127.0.0.1:8443');
  t.is(base('DNS:api.test', { CAPSTAN_HTTP_TLS_CERT: join(folder, 'nothing.crt') }), 'https://127.0.0.1:8443');

  const settings = (options: Record<string, string> = {}) => readSettings({ dataDir: folder, ...options }, { variables: {}, cwd: folder });
  writeRunFile(folder, { pid: process.pid, http: '127.0.0.1:8443', grpc: '127.0.0.1:1', url: 'https://localhost:8443' });
  t.is(httpBase(settings()), 'https://localhost:8443');
  t.is(httpBase(settings({ httpPort: '8443' })), 'https://localhost:8443', 'its own port');
  t.is(httpBase(settings({ httpPort: '9000' })), 'http://127.0.0.1:9000');
});

withCertificates(`a certificate that is not good here is named as the reason, with what helps${why}`, async (t) => {
  const cert = certificateFor('unknown', 'DNS:localhost');
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(cert.replace('.crt', '.key')) }, (_request, response) =>
    response.end(),
  );
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `https://localhost:${port}`;
  const unknown = `the certificate of the gateway at ${url} is signed by an unknown authority (DEPTH_ZERO_SELF_SIGNED_CERT)`;
  for (const call of [connectGateway(url, 'key').query(PING, {}), new QueueApi(`${url}/v2/e`, 'key').call('GET', '/health')]) {
    const error = await t.throwsAsync(call, { instanceOf: ToolError, message: unknown });
    t.regex(error.hint, /NODE_EXTRA_CA_CERTS/);
  }
  writeFileSync(join(folder, 'version'), '1');
  writeRunFile(folder, { pid: process.pid, http: `127.0.0.1:${port}`, grpc: '127.0.0.1:1', url });
  const environment = { variables: { SERVICE_API_KEY: 'key', CAPSTAN_CONTAINER_SOCKET: 'none' }, cwd: folder };
  const findings = await examine(readSettings({ dataDir: folder }, environment), environment);
  t.like(
    findings.find(({ name }) => name === 'gateway'),
    { verdict: 'fault', text: unknown },
  );
});
