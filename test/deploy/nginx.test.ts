/** deploy/nginx/capstan.conf in front of a gateway: what its comments and docs/install.md promise, with the real nginx. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request, type RequestOptions } from 'node:https';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';

import test, { type ExecutionContext } from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { FakeAgent, type Taken } from '../gateway/fake-agent.ts';
import type { Gateway } from '../../gateway/assembly/start.ts';
import { caller, connected, KEY, startGateway } from '../gateway/harness.ts';
import { setupLb, type LbSetup } from '../gateway/lb-harness.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

const missing = ['nginx', 'openssl'].filter((program) => spawnSync(program, ['-v']).error !== undefined);
const withNginx = missing.length === 0 ? test : test.skip;
const why = missing.length === 0 ? '' : ` (skipped: ${missing.join(' and ')} cannot be run here)`;

const SITE = readFileSync(join(import.meta.dirname, '../../deploy/nginx/capstan.conf'), 'utf8');
const LB_HOST = 'web.lb.example.org';

interface NginxSetup extends LbSetup {
  /** The other gateway of the upstream, of two. */
  readonly second: Gateway | null;
  /** Sends by HTTPS to nginx, whatever the host; the caller ends it. */
  send(options: RequestOptions & { readonly host: string }): ClientRequest;
}

/** The site as it stands, but for what its head says is the operator's, and ports that need no root. */
function siteFor(folder: string, gateways: readonly string[], plainPort: number, port: number): string {
  const rest = 'max_fails=2 fail_timeout=2s;';
  const own: readonly [from: string, to: string][] = [
    [`server 127.0.0.1:8080 ${rest}`, gateways.map((gateway) => `server ${gateway} ${rest}`).join('\n    ')],
    ['/etc/capstan/', `${folder}/`],
    ['listen 80;', `listen 127.0.0.1:${plainPort};`],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${port} ssl http2;`],
  ];
  return own.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`deploy/nginx/capstan.conf has no \`${from}\``);
    return text.replaceAll(from, to);
  }, SITE);
}

async function startNginx(
  t: ExecutionContext,
  { gateways = 1, ...settings }: { gateways?: 1 | 2 } & Record<string, unknown> = {},
): Promise<NginxSetup> {
  const folder = mkdtempSync(join(tmpdir(), 'capstan-nginx-'));
  const all = { trustedProxies: '127.0.0.1', lbDomain: 'lb.example.org', lbMaxBodyBytes: 300_000, ...settings };
  const made = await setupLb(t, all, LB_HOST);
  const second = gateways === 1 ? null : await startGateway(t, made.scheduler, all);
  if (second !== null) await connected(caller(t, second.url));
  const upstream = [made.gateway, ...(second === null ? [] : [second])];
  const names = 'subjectAltName=DNS:api.example.org,DNS:*.lb.example.org';
  const ec = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=x'];
  const files = ['-keyout', join(folder, 'privkey.pem'), '-out', join(folder, 'fullchain.pem')];
  execFileSync('openssl', [...ec, '-addext', names, ...files], { stdio: 'pipe' });
  const [plainPort, port] = [await freePort(), await freePort()];
  writeFileSync(
    join(folder, 'site.conf'),
    siteFor(
      folder,
      upstream.map(({ url }) => new URL(url).host),
      plainPort,
      port,
    ),
  );
  mkdirSync(join(folder, 'temp'));
  const temps = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/temp/${name};`);
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${folder}/pid; error_log stderr; events {}
     http { access_log off; ${temps.join(' ')} include ${folder}/site.conf; }`,
  );
  const nginx = spawn('nginx', ['-e', 'stderr', '-c', join(folder, 'nginx.conf')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  nginx.stderr.on('data', (text: Buffer) => (said += text.toString()));
  const ended = once(nginx, 'exit');
  t.teardown(async () => {
    nginx.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const ca = readFileSync(join(folder, 'fullchain.pem'));
  const send: NginxSetup['send'] = ({ host, headers, ...options }) =>
    request({
      host: '127.0.0.1',
      port,
      servername: host,
      ca,
      agent: false,
      headers: { host, authorization: `Bearer ${KEY}`, ...(headers as Record<string, string>) },
      ...options,
    });
  await until('nginx listens', async () => {
    if (nginx.exitCode !== null) throw new Error(`nginx ended: ${said}`);
    return (await read(send({ host: 'api.example.org', path: '/healthz' })).catch(() => null))?.status === 200;
  });
  return { ...made, second, send };
}

interface Whole {
  readonly status: number;
  readonly text: string;
}

async function read(sent: ClientRequest): Promise<Whole> {
  sent.end();
  // Who refuses a body may close the connection under it: the answer is there by then.
  sent.on('error', () => undefined);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return { status: answer.statusCode ?? 0, text: Buffer.concat(parts).toString() };
}

withNginx(`nginx with deploy/nginx/capstan.conf passes the API and endpoints on as they are, and bodies as they come${why}`, async (t) => {
  const { send, invokeAddress, gateway, scheduler } = await startNginx(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  const answering = (act: (taken: Taken) => void): void => void (agent.onRequest = act);

  // Who called is what nginx saw; what a caller claims of itself is gone.
  answering((taken) => taken.answer(200, '{}'));
  await read(send({ host: LB_HOST, path: '/fn?x=1', headers: { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-host': 'evil' } }));
  const { begin } = await agent.taken.next(() => true);
  const told = new Map(begin.headers.map(({ name, value }) => [name, value]));
  t.like(begin, { target: '/fn?x=1', scheme: 'https', authority: LB_HOST });
  t.is(told.get('x-forwarded-for'), '127.0.0.1, 127.0.0.1');

  // A stream: its first part is here while the function has not ended.
  answering((taken) => {
    const type = { name: 'content-type', value: 'text/event-stream' };
    taken.send({ $case: 'head', value: { status: 200, headers: [type], body: Buffer.from('data: 1\n\n'), ended: false } });
  });
  const from = agent.taken.items.length;
  const [events] = (await once(send({ host: LB_HOST, path: '/fn' }).end(), 'response')) as [IncomingMessage];
  t.is(String(((await once(events, 'data')) as [Buffer])[0]), 'data: 1\n\n');
  const streaming = await agent.taken.next(() => true, from);
  streaming.send({ $case: 'body', value: { bytes: Buffer.from('data: 2\n\n'), ended: true } });
  t.is(String(((await once(events, 'data')) as [Buffer])[0]), 'data: 2\n\n');

  // An upload: its first part is with the worker while the rest is not sent.
  answering(() => undefined);
  const before = agent.taken.items.length;
  const upload = send({ host: LB_HOST, path: '/fn', method: 'POST', headers: { 'content-length': '200000' } });
  upload.write(Buffer.alloc(100_000, 'x'));
  const taken = await agent.taken.next(() => true, before);
  taken.send({ $case: 'credit', value: 100_000 });
  upload.write(Buffer.alloc(100_000, 'x'));
  await agent.frames.next(({ request: number, frame }) => number === taken.number && frame?.$case === 'body' && frame.value.ended);
  taken.answer(201, '"stored"');
  t.deepEqual(await read(upload), { status: 201, text: '"stored"' });

  // Refusals are the gateway's own; its figures are not for the world.
  const large = send({ host: LB_HOST, path: '/fn', method: 'POST', headers: { 'content-length': '400000' } });
  large.write(Buffer.alloc(400_000, 'x'));
  t.like(JSON.parse((await read(large)).text), { error: 'Payload Too Large' });
  t.is((await read(send({ host: 'api.example.org', path: '/metrics' }))).status, 404);
  t.is((await read(send({ host: 'api.example.org', path: '/v2/none/health' }))).status, 404);

  // A WebSocket is the worker's own connection from its 101 on.
  scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED);
  const server = new FakeAgent(t, invokeAddress, 'node-2').serve('own', { s1: 2 });
  server.onRequest = ({ send: say, begin: { upgrade, target } }) => {
    t.true(upgrade);
    const body = Buffer.from(target === '/socket' ? 'hello' : '');
    say({ $case: 'head', value: { status: 101, headers: [], body, ended: false } });
  };
  const headers = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'sec-websocket-version': '13',
  };
  const asked = send({ host: 'own.lb.example.org', path: '/socket', headers }).end();
  const [, socket, first] = (await once(asked, 'upgrade')) as [IncomingMessage, Duplex, Buffer];
  t.is(String(first.length > 0 ? first : ((await once(socket, 'data')) as [Buffer])[0]), 'hello');
  socket.write('and back');
  const { frame } = await server.frames.next(({ frame: each }) => each?.$case === 'body');
  t.is(String(frame?.$case === 'body' ? frame.value.bytes : ''), 'and back');
  socket.destroy();

  // As a browser opens it, in the path form; a gateway that stops says so in a Close frame (1012).
  const byPath = send({
    host: 'api.example.org',
    path: '/lb/own/quiet',
    headers: { ...headers, authorization: '', 'sec-websocket-protocol': `capstan, capstan-key.${KEY}` },
  });
  byPath.removeHeader('authorization');
  const [opened, quiet] = (await once(byPath.end(), 'upgrade')) as [IncomingMessage, Duplex];
  t.is(opened.headers['sec-websocket-protocol'], 'capstan');
  const last = once(quiet, 'data');
  await gateway.close();
  const [close] = (await last) as [Buffer];
  t.deepEqual([close[0], close.readUInt16BE(2)], [0x88, 1012]);
  quiet.destroy();
  const away = await read(send({ host: LB_HOST, path: '/fn' }));
  t.is(away.status, 502);
  t.like(JSON.parse(away.text), { status: 502, error: 'Bad Gateway', title: 'Bad Gateway' });
});

withNginx(`two gateways behind nginx: one may stop under load, and no caller gets an error${why}`, async (t) => {
  const { send, gateway, second } = await startNginx(t, { gateways: 2, closeGraceMs: 5_000 });
  const body = '{"input":{"n":1}}';
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
  const submit = async (): Promise<number> => {
    const sent = send({ host: 'api.example.org', path: '/v2/ep/run', method: 'POST', headers });
    sent.write(body);
    return (await read(sent)).status;
  };
  const statuses = new Map<number, number>();
  const load = { stopped: false };
  const callers = Array.from({ length: 8 }, async () => {
    while (!load.stopped) {
      const status = await submit();
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  });
  const served = (count: number): Promise<unknown> =>
    until(`${count} answers`, () => [...statuses.values()].reduce((sum, each) => sum + each, 0) >= count);
  await served(100);
  await gateway.close();
  await served(300);
  load.stopped = true;
  await Promise.all(callers);
  t.deepEqual([...statuses.keys()], [200], JSON.stringify([...statuses]));
  await second?.close();
  t.is(await submit(), 502);
});
