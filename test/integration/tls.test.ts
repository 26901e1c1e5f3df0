/** gRPC between the parts under certificates of both sides, and never plain to another host. */
import { execFileSync } from 'node:child_process';
import { realpath, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import anyTest, { type TestFn } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { ControlServiceClient, type ListNodesResponse } from '../../proto/gen/capstan/v1/control.ts';
import { clientCredentials, isOnThisHost, serverCredentials } from '../../lib/grpc-tls.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import { readConfig as gatewaySettings } from '../../gateway/config.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { ownFolder } from '../support/own-folder.ts';

const test = anyTest as TestFn<{ folder: string }>;

/** A CA with one certificate for 127.0.0.1, and a CA that nobody knows. */
function makeCertificates(folder: string): void {
  const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  for (const ca of ['ca', 'other-ca']) openssl('req', '-x509', ...ec, '-keyout', `${ca}.key`, '-out', `${ca}.crt`, '-subj', `/CN=${ca}`);
  for (const [name, ca] of [
    ['part', 'ca'],
    ['stranger', 'other-ca'],
  ] as const) {
    openssl('req', ...ec, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
    openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      `${ca}.crt`,
      '-CAkey',
      `${ca}.key`,
      '-CAcreateserial',
      '-days',
      '2',
      '-extfile',
      'san.cnf',
      '-out',
      `${name}.crt`,
    );
  }
}

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test.before(async (t) => {
  t.context.folder = await realpath(await ownFolder('capstan-tls'));
  await writeFile(join(t.context.folder, 'san.cnf'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
  if (hasOpenssl()) makeCertificates(t.context.folder);
});
test.after.always((t) => rm(t.context.folder, { recursive: true, force: true }));

test('plain gRPC stays on this host unless the operator says otherwise', (t) => {
  for (const address of ['127.0.0.1:7070', 'localhost:7070', '[::1]:7070', '127.8.9.1:1', 'unix:/run/capstan.sock']) {
    t.true(isOnThisHost(address), address);
    t.notThrows(() => clientCredentials(address, {}));
  }
  for (const address of [
    '10.0.0.5:7070',
    'gpu-7:7070',
    '0.0.0.0:7070',
    '[::]:7070',
    'localhost.example.org:7070',
    '127.0.0.1.example.org:7070',
  ]) {
    t.false(isOnThisHost(address), address);
    const refused = t.throws(() => clientCredentials(address, {}), { instanceOf: CapstanError });
    t.is(refused?.code, 'CONFIG');
    t.true(refused?.message.includes(address));
    t.throws(() => serverCredentials(address, {}), { instanceOf: CapstanError });
    t.notThrows(() => clientCredentials(address, { grpcPlain: 'anywhere' }));
    t.notThrows(() => serverCredentials(address, { grpcPlain: 'anywhere' }));
  }
});

test('half a certificate, a file that is not there, a server with a CA alone: each is named', (t) => {
  const message = (run: () => unknown): string => t.throws(run, { instanceOf: CapstanError })?.message ?? '';
  t.regex(
    message(() => clientCredentials('gpu-7:1', { tlsCert: '/x' })),
    /^CAPSTAN_TLS_KEY: is required/,
  );
  t.regex(
    message(() => serverCredentials('gpu-7:1', { tlsKey: '/x' })),
    /^CAPSTAN_TLS_CERT: is required/,
  );
  t.regex(
    message(() => clientCredentials('gpu-7:1', { tlsCa: '/no/such/file' })),
    /^CAPSTAN_TLS_CA: cannot read \/no\/such\/file \(ENOENT\)/,
  );
  t.regex(
    message(() => serverCredentials('gpu-7:1', { tlsCa: '/x' })),
    /^CAPSTAN_TLS_CERT: is required when CAPSTAN_TLS_CA is set/,
  );
});

if (hasOpenssl()) {
  test('parts with certificates of one CA talk; one without, or of another CA, is not let in', async (t) => {
    const warnings: string[] = [];
    process.on('warning', ({ message }) => warnings.push(message));
    const file = (name: string): string => join(t.context.folder, name);
    const own = { tlsCa: file('ca.crt'), tlsCert: file('part.crt'), tlsKey: file('part.key') };
    const scheduler = await TestScheduler.open(own);
    t.teardown(() => scheduler.close());
    const { address } = scheduler.handle;
    const token = scheduler.secret('gateway-token');
    const key = scheduler.secret('api-key');

    const list = (client: ControlServiceClient): Promise<ListNodesResponse> =>
      unary<ListNodesResponse>((done) =>
        client.listNodes({ afterId: '', limit: 0 }, scheduler.bearer(key), { deadline: Date.now() + 5_000 }, done),
      );
    const attempt = async (how: Parameters<typeof clientCredentials>[1]): Promise<ListNodesResponse> => {
      const client = new ControlServiceClient(address, clientCredentials(address, how));
      try {
        return await list(client);
      } finally {
        client.close();
      }
    };
    t.deepEqual(await attempt(own), { nodes: [] });
    await t.throwsAsync(attempt({}), { instanceOf: CapstanError }, 'plain');
    await t.throwsAsync(
      attempt({ tlsCa: own.tlsCa }),
      { instanceOf: CapstanError, message: /it requires a certificate/ },
      'no certificate',
    );
    await t.throwsAsync(
      attempt({ tlsCa: own.tlsCa, tlsCert: file('stranger.crt'), tlsKey: file('stranger.key') }),
      { instanceOf: CapstanError, message: /it does not accept the certificate of this part \(CAPSTAN_TLS_CERT\)/ },
      'a certificate of another CA',
    );
    await t.throwsAsync(
      attempt({ ...own, tlsCa: file('other-ca.crt') }),
      { instanceOf: CapstanError, message: /signed by another authority than those in CAPSTAN_TLS_CA/ },
      'a scheduler of another CA',
    );
    t.deepEqual(await attempt(own), { nodes: [] });
    // Node says that an IP address must not be the name of a TLS server.
    t.deepEqual(warnings, []);

    const gateway = await startGateway(gatewaySettings({ port: 0, scheduler: address, token, logLevel: 'silent', ...own }));
    t.teardown(() => gateway.close());
    const headers = { authorization: `Bearer ${key}` };
    const status = await until('the gateway has reached the scheduler', async () => {
      const answer = await fetch(`${gateway.url}/v2/nothing/health`, { headers });
      return answer.status === 503 ? null : answer.status;
    });
    t.is(status, 404);
  });
} else {
  test.skip('parts with certificates of one CA talk (skipped: openssl, which makes the certificates, is not installed)', () => {});
}
