/** Builds belong to the accounts that sent them: a digest alone is worth nothing (docs/api-control-plane.md, Builds). */
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';

import type { Metadata } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { BlobPurpose, type GetBlobResponse, type StatBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { CreateAccountRequest, type CreateAccountResponse, type DeployResponse } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointSpec } from '../../proto/gen/json/capstan/v1/control.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { endpointSpec, TestScheduler, unary } from '../support/scheduler-client.ts';

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const HOUR = 3_600_000;

/** A key of a second account. */
async function otherAccount(scheduler: TestScheduler): Promise<string> {
  const operator = scheduler.bearer(scheduler.secret('api-key'));
  const request = CreateAccountRequest.fromPartial({ id: 'other' });
  return (await unary<CreateAccountResponse>((done) => scheduler.control.createAccount(request, operator, done))).keyText;
}

async function deployDigest(scheduler: TestScheduler, digest: string, token: string): Promise<DeployResponse> {
  const endpoints = [endpointSpec({ name: 'copied' })];
  const request = { environment: '', buildDigest: digest, buildSize: 1, endpoints, keep: [] };
  return unary((done) => scheduler.control.deploy(request, scheduler.bearer(token), done));
}

async function fetched(scheduler: TestScheduler, id: string, metadata: Metadata): Promise<Buffer> {
  const frames: Buffer[] = [];
  try {
    for await (const { part } of scheduler.blobs.get({ id }, metadata) as AsyncIterable<GetBlobResponse>)
      if (part?.$case === 'data') frames.push(part.value);
  } catch (error) {
    throw fromServiceError(error);
  }
  return Buffer.concat(frames);
}

/** Both accounts over HTTP. */
async function http(t: ExecutionContext, scheduler: TestScheduler) {
  const { address } = scheduler.handle;
  const own = { port: 0, scheduler: address, token: scheduler.secret('gateway-token'), logLevel: 'silent', closeGraceMs: 0 };
  const gateway = await start(readConfig(own, {}));
  t.teardown(() => gateway.close());
  const send = async (key: string, method: string, path: string, body?: Buffer | object, headers: Record<string, string> = {}) => {
    const sent = Buffer.isBuffer(body) ? new Uint8Array(body) : body === undefined ? null : JSON.stringify(body);
    const json = Buffer.isBuffer(body) || body === undefined ? {} : { 'content-type': 'application/json' };
    const all = { authorization: `Bearer ${key}`, ...json, ...headers };
    const response = await fetch(`${gateway.url}${path}`, { method, headers: all, body: sent });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  while ((await send(scheduler.secret('api-key'), 'GET', '/v2/none/health')).status === 503);
  return send;
}

test('another account that knows digest and size neither sees, resumes, fetches nor deploys a build', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const send = await http(t, scheduler);
  const owner = scheduler.secret('api-key');
  const other = await otherAccount(scheduler);
  const bytes = randomBytes(100_000);
  const digest = digestOf(bytes);
  const path = `/builds/${digest}`;
  t.is((await send(owner, 'PUT', path, bytes)).status, 201);

  const graphql = { query: 'mutation ($b: String!, $e: [EndpointSpec!]!) { deploy(build: $b, endpoints: $e) { endpoints { id } } }' };
  const variables = { b: digest, e: [EndpointSpec.toJSON(endpointSpec({ name: 'copied' }))] };
  const deployed = await send(other, 'POST', '/graphql', { ...graphql, variables });
  t.like(JSON.parse(deployed.text), { errors: [{ extensions: { code: 'NOT_FOUND', field: 'build_digest' } }] }, deployed.text);
  await t.throwsAsync(deployDigest(scheduler, digest, other), { message: new RegExp(`build ${digest} is not in the artifact store`) });

  const seen = await send(other, 'HEAD', path);
  t.is(seen.status, 404);
  t.is(seen.headers.get('upload-offset'), '0');
  const unknown = await send(other, 'GET', `/builds/${'0'.repeat(64)}`);
  const known = await send(other, 'GET', path);
  t.is(known.text.replaceAll(digest, ''), unknown.text.replaceAll('0'.repeat(64), ''));
  const id = `build/${digest}`;
  const stat = await unary<StatBlobResponse>((done) => scheduler.blobs.stat({ id }, scheduler.bearer(other), done));
  t.deepEqual(stat, { exists: false, size: 0, received: 0 });
  const refused = await t.throwsAsync(fetched(scheduler, id, scheduler.bearer(other)));
  t.is((refused as unknown as { code: string }).code, 'NOT_FOUND');
  t.true((await fetched(scheduler, id, scheduler.bearer(owner))).equals(bytes));

  // Right length, other bytes: whole, and as the last part.
  const wrong = Buffer.alloc(bytes.length);
  t.is((await send(other, 'PUT', path, wrong)).status, 400);
  const part = { 'upload-length': String(bytes.length), 'upload-offset': '0' };
  t.is((await send(other, 'PATCH', path, wrong, part)).status, 400);
  // The size of another account's build is no secret worth asking for: a wrong one is refused by the digest alone.
  t.notRegex((await send(other, 'PUT', path, Buffer.alloc(10))).text, /100000/);
  await t.throwsAsync(deployDigest(scheduler, digest, other), { message: /not in the artifact store/ });
  t.true((await fetched(scheduler, id, scheduler.bearer(owner))).equals(bytes));
});

test('an account that sends the same bytes, whole or in parts, owns the build, also after a restart', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const send = await http(t, scheduler);
  const other = await otherAccount(scheduler);
  const [whole, parted] = [randomBytes(50_000), randomBytes(50_000)];
  for (const bytes of [whole, parted]) await scheduler.putBuild(bytes);

  const download = `/builds/${digestOf(whole)}/content`;
  t.is((await send(other, 'GET', download)).status, 404, 'another account does not download it');
  const first = await send(other, 'PUT', `/builds/${digestOf(whole)}`, whole);
  t.is(first.status, 201, 'it does not tell that another account has it');
  t.is((await send(other, 'PUT', `/builds/${digestOf(whole)}`, whole)).status, 200);
  const downloaded = await send(other, 'GET', download);
  t.is(downloaded.headers.get('content-type'), 'application/gzip');
  t.is(downloaded.headers.get('content-length'), '50000');
  const path = `/builds/${digestOf(parted)}`;
  const part = (offset: number) => ({ 'upload-length': '50000', 'upload-offset': String(offset) });
  t.is((await send(other, 'PATCH', path, parted.subarray(0, 20_000), part(0))).status, 200);
  t.is((await send(other, 'HEAD', path)).headers.get('upload-offset'), '20000');
  const last = await send(other, 'PATCH', path, parted.subarray(20_000), part(20_000));
  t.is(last.status, 201, last.text);

  await scheduler.restart();
  for (const bytes of [whole, parted]) {
    t.is((await deployDigest(scheduler, digestOf(bytes), other)).endpoints.length, 1);
    t.true((await fetched(scheduler, `build/${digestOf(bytes)}`, scheduler.bearer(other))).equals(bytes));
  }
});

test('in a data folder of an earlier version the builds of releases and deployments belong to their accounts', async (t) => {
  const before = await TestScheduler.open();
  const other = await otherAccount(before);
  const [deployed, lone] = [randomBytes(1_000), randomBytes(1_000)];
  const token = before.secret('api-key');
  await before.deploy([{ name: 'mine' }], { bytes: deployed });
  await before.putBuild(lone);
  await before.handle.close();
  const db = new Database(join(before.dataDir, 'scheduler', 'capstan.db'));
  db.exec(`UPDATE control SET value = json_remove(value, '$.owners') WHERE kind = 'build'`);
  db.close();

  const scheduler = await TestScheduler.open({ dataDir: before.dataDir });
  t.teardown(() => scheduler.close());
  for (let round = 0; round < 2; round += 1) {
    t.is((await deployDigest(scheduler, digestOf(deployed), token)).endpoints.length, 1);
    for (const [digest, key] of [
      [digestOf(deployed), other],
      [digestOf(lone), other],
      [digestOf(lone), token],
    ] as const)
      await t.throwsAsync(deployDigest(scheduler, digest, key), { message: /not in the artifact store/ });
    await scheduler.restart();
  }
});

test('a build that nobody deployed is forgotten an hour after it was last sent or asked for; a deployed one is kept', async (t) => {
  const clock = new ManualClock();
  const scheduler = await TestScheduler.open({}, { clock });
  t.teardown(() => scheduler.close());
  const token = scheduler.secret('api-key');
  const [deployed, asked, idle] = [randomBytes(1_000), randomBytes(1_000), randomBytes(1_000)];
  await scheduler.deploy([{ name: 'mine' }], { bytes: deployed });
  for (const bytes of [asked, idle]) await scheduler.putBuild(bytes);
  const stat = async (bytes: Buffer): Promise<boolean> => {
    const id = `build/${digestOf(bytes)}`;
    return (await unary<StatBlobResponse>((done) => scheduler.blobs.stat({ id }, scheduler.bearer(token), done))).exists;
  };
  clock.advance(HOUR / 2);
  t.true(await stat(asked));
  clock.advance(HOUR / 2 + 600_000);
  t.is((await deployDigest(scheduler, digestOf(asked), token)).endpoints.length, 1);
  await t.throwsAsync(deployDigest(scheduler, digestOf(idle), token), { message: /not in the artifact store/ });
  t.false(await stat(idle));
  t.true(await stat(deployed));
});

test('a node fetches a build only while a worker of it is placed there', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const [placed, elsewhere] = [randomBytes(1_000), randomBytes(1_000)];
  const node = await scheduler.join('host');
  const session = node.session();
  t.teardown(() => session.call.cancel());
  await scheduler.putBuild(elsewhere);
  await scheduler.deploy([{ name: 'mine', workersMin: 1 }], { bytes: placed });
  while ((await session.take('desired')).releases.length === 0);
  t.true((await fetched(scheduler, `build/${digestOf(placed)}`, node.credentials)).equals(placed));
  const id = `build/${digestOf(elsewhere)}`;
  await t.throwsAsync(fetched(scheduler, id, node.credentials), { message: /this node has no access to the blob/ });
});

test('bodies are neither put, seen nor fetched with an account’s key, and builds are not put by nodes', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const bytes = Buffer.from('{"secret":1}');
  const put = (metadata: Metadata, header: { purpose: BlobPurpose; digest: string }) =>
    unary<{ id: string }>((done) => {
      const call = scheduler.blobs.put(metadata, done);
      call.on('error', () => undefined);
      call.write({ part: { $case: 'header', value: { ...header, size: bytes.length } } });
      call.write({ part: { $case: 'data', value: bytes } });
      call.end();
    });
  const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  const node = await scheduler.join('host');
  const body = { purpose: BlobPurpose.BODY, digest: '' };
  const { id } = await put(gateway, body);
  await t.throwsAsync(fetched(scheduler, id, owner), { message: new RegExp(`blob ${id} does not exist`) });
  t.is((await unary<StatBlobResponse>((done) => scheduler.blobs.stat({ id }, owner, done))).exists, false);
  await t.throwsAsync(put(owner, body), { message: /only gateways and nodes may upload bodies/ });
  await t.notThrowsAsync(put(node.credentials, body));
  const build = { purpose: BlobPurpose.BUILD, digest: digestOf(bytes) };
  await t.throwsAsync(put(node.credentials, build), { message: /nodes may neither upload nor read builds/ });
  await put(owner, build);
  const own = `build/${digestOf(bytes)}`;
  await t.notThrowsAsync(fetched(scheduler, own, owner));
  for (const refused of [
    put(gateway, build),
    fetched(scheduler, own, gateway),
    unary((done) => scheduler.blobs.stat({ id: own }, gateway, done)),
  ])
    await t.throwsAsync(refused, { code: 'PERMISSION_DENIED', message: /gateways may neither upload nor read builds/ });
});
