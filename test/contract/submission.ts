/** Submitting: fields, bounds, sizes, ids. */
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { contract, isProblem } from './contract.ts';

const api = contract(test);
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';

test('/run: 200 with id and IN_QUEUE, nothing else; ids are <uuid>-u1', async (t) => {
  const answer = await api.call('POST', '/v2/:echo/run', { body: { input: {} } });
  t.is(answer.status, 200);
  t.deepEqual(Object.keys(answer.json), ['id', 'status']);
  t.is(answer.json['status'], 'IN_QUEUE');
  t.regex(String(answer.json['id']), new RegExp(`^${UUID}-u1$`));
  t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8');
});

test('/runsync: waits; ids are sync-<uuid>-u1', async (t) => {
  const answer = await api.call('POST', '/v2/:echo/runsync', { body: { input: { a: 1 } } });
  t.is(answer.status, 200);
  t.like(answer.json, { status: 'COMPLETED', output: { a: 1 } });
  t.regex(String(answer.json['id']), new RegExp(`^sync-${UUID}-u1$`));
});

test('/runsync: when the wait ends first, 200 with the id and the state it then has', async (t) => {
  const answer = await api.call('POST', '/v2/:parked/runsync?wait=1000', { body: { input: {} } });
  t.is(answer.status, 200);
  t.is(answer.json['status'], 'IN_QUEUE');
});

for (const [what, body, detail] of [
  ['no input', {}, /input: is required and must be an object/],
  ['an input that is an array', { input: [] }, /input: must be an object/],
  ['an input that is a string', { input: 'text' }, /input: must be an object/],
  ['an input that is null', { input: null }, /input: must be an object/],
  ['a body that is an array', '[]', /body: must be a JSON object/],
  ['a body that is no JSON', '{"input":', /body: must be JSON/],
  ['an empty body', '', /body|input/],
  ['a policy that is no object', { input: {}, policy: 1 }, /policy: must be an object/],
  ['an s3Config that is no object', { input: {}, s3Config: 'x' }, /s3Config: must be an object/],
  ['a webhook that is no URL', { input: {}, webhook: 'nonsense' }, /webhook: must be an http or https URL/],
] as const) {
  for (const operation of ['run', 'runsync']) {
    test(`Job submission body: /${operation} refuses ${what}`, async (t) => {
      isProblem(t, await api.call('POST', `/v2/:echo/${operation}`, { body }), 400, detail);
    });
  }
}

test('Body: {"input":{}} is legal and reaches the handler as {}', async (t) => {
  t.deepEqual((await api.call('POST', '/v2/:echo/runsync', { body: { input: {} } })).json['output'], {});
});

test('Body: unknown top-level keys are ignored, webhookV2 among them', async (t) => {
  const answer = await api.call('POST', '/v2/:echo/runsync', { body: { input: { a: 1 }, webhookV2: 7, other: { x: [] } } });
  t.like(answer.json, { status: 'COMPLETED', output: { a: 1 } });
});

test('input reaches the handler and comes back as it was', async (t) => {
  const input = { text: 'ü🦊\u0000"', numbers: [0, -0.5, 1e21, 9007199254740991], nested: { deep: [[{}]] }, none: null };
  t.deepEqual((await api.call('POST', '/v2/:echo/runsync', { body: { input } })).json['output'], input);
});

const DAYS_7 = 604_800_000;
const bounds: readonly (readonly [field: string, value: unknown, ok: boolean])[] = [
  ['executionTimeout', 5_000, true],
  ['executionTimeout', 4_999, false],
  ['executionTimeout', DAYS_7, true],
  ['executionTimeout', DAYS_7 + 1, false],
  ['executionTimeout', 6_000.5, false],
  ['executionTimeout', '6000', false],
  ['ttl', 10_000, true],
  ['ttl', 9_999, false],
  ['ttl', DAYS_7, true],
  ['ttl', DAYS_7 + 1, false],
  ['ttl', 20_000.5, false],
  ['ttl', true, false],
  ['lowPriority', true, true],
  ['lowPriority', false, true],
  ['lowPriority', 'yes', false],
];
for (const [field, value, ok] of bounds) {
  test(`policy object: ${field} ${JSON.stringify(value)} is ${ok ? 'accepted' : 'refused'}`, async (t) => {
    const answer = await api.call('POST', '/v2/:parked/run', { body: { input: {}, policy: { [field]: value } } });
    if (ok) t.is(answer.status, 200, answer.text);
    else isProblem(t, answer, 400, new RegExp(`policy\\.${field}: must be`));
  });
}

const s3Config = {
  accessId: 'access-id-value',
  accessSecret: 'access-secret-value',
  bucketName: 'bucket',
  endpointUrl: 'https://s3.example.com',
};
test('s3Config: any object reaches the function as it came', async (t) => {
  for (const given of [
    {},
    { region: 'eu' },
    { accessId: 5, nested: { list: [1, null, 'ü'] } },
    { endpointUrl: 'nonsense', more: 'own', json: '{}' },
  ]) {
    const answer = await api.call('POST', '/v2/:secrets/runsync', { body: { input: { show: true }, s3Config: given } });
    t.deepEqual(answer.json['output'], given, answer.text);
  }
  isProblem(t, await api.call('POST', '/v2/:parked/run', { body: { input: {}, s3Config: [] } }), 400, /s3Config: must be an object/);
});

test('s3Config object: passed to the worker; with env values it shows nowhere else', async (t) => {
  // The service only passes the object on: what else stands in it goes along.
  const withRegion = { ...s3Config, region: 'region-value' };
  const answer = await api.call('POST', '/v2/:secrets/runsync', { body: { input: {}, s3Config: withRegion } });
  t.deepEqual(answer.json['output'], { s3: Object.values(withRegion).map(digest), env: digest('env-secret-value') });
  const job = String(answer.json['id']);
  const waiting = await api.run('parked', {}, { s3Config });
  const texts = new Map<string, string>([
    ['the answer', answer.text],
    ['its status', (await api.call('GET', `/v2/:secrets/status/${job}`)).text],
    ['its page', (await api.call('GET', '/v2/:secrets/requests')).text],
    ['the status of one that waits', (await api.call('GET', `/v2/:parked/status/${waiting}`)).text],
    ['the page of those that wait', (await api.call('GET', '/v2/:parked/requests')).text],
    ['an error about them', (await api.call('POST', '/v2/:parked/run', { body: { input: {}, s3Config, webhook: 'nonsense' } })).text],
    ['the logs', await api.stack.log()],
  ]);
  const files = await readdir(api.stack.dataDir, { recursive: true, withFileTypes: true });
  for (const file of files.filter((entry) => entry.isFile())) {
    const path = join(file.parentPath, file.name);
    const text = await readFile(path, 'latin1').catch((error: NodeJS.ErrnoException) => {
      // A body that was just being taken in, by another test.
      if (error.code === 'ENOENT') return '';
      throw error;
    });
    texts.set(path, text);
  }
  for (const secret of ['access-secret-value', 'region-value', 'env-secret-value'])
    for (const [where, text] of texts) t.false(text.includes(secret), `${secret} is in ${where}`);
});

for (const [operation, limit, bytes] of [
  ['run', '10MiB', 10 * 1024 * 1024],
  ['runsync', '20MiB', 20 * 1024 * 1024],
] as const) {
  test(`Limits: the body of /${operation} may have ${limit}, not a byte more`, async (t) => {
    const frame = '{"input":{"x":""}}'.length;
    const body = (size: number): string => `{"input":{"x":"${'a'.repeat(size - frame)}"}}`;
    isProblem(
      t,
      await api.call('POST', `/v2/:parked/${operation}`, { body: body(bytes + 1) }),
      413,
      new RegExp(`exceeded max body size of ${limit}`),
    );
    t.is((await api.call('POST', `/v2/:parked/${operation}?wait=1000`, { body: body(bytes) })).status, 200);
  });
}

test('Limits: a result may have 20 MiB; a larger one is the job’s failure', async (t) => {
  const MiB20 = 20 * 1024 * 1024;
  const fits = await api.call('POST', '/v2/:large/runsync', { body: { input: { bytes: MiB20 - 2 } } });
  t.is(String(fits.json['output']).length, MiB20 - 2);
  const beyond = await api.call('POST', '/v2/:large/runsync', { body: { input: { bytes: MiB20 - 1 } } });
  t.like(beyond.json, { status: 'FAILED', error: `the result has ${MiB20 + 1} bytes; at most 20 MiB are allowed` });
});

test('stream: a chunk may have 1 MiB; a larger one is the job’s failure', async (t) => {
  const MiB = 1024 * 1024;
  const fits = await api.call('POST', '/v2/:largechunk/runsync', { body: { input: { bytes: MiB - 2 } } });
  t.is(fits.json['status'], 'COMPLETED');
  const beyond = await api.call('POST', '/v2/:largechunk/runsync', { body: { input: { bytes: MiB - 1 } } });
  t.like(beyond.json, { status: 'FAILED', error: `a chunk has ${MiB + 1} bytes; at most 1 MiB is allowed` });
});

test('Idempotency-Key: the same body gets the first job, another body 409, another key another job', async (t) => {
  const headers = { 'idempotency-key': 'order-1' };
  const first = await api.call('POST', '/v2/:parked/run', { body: { input: { n: 1 } }, headers });
  const again = await api.call('POST', '/v2/:parked/run', { body: { input: { n: 1 } }, headers });
  t.is(again.json['id'], first.json['id']);
  isProblem(t, await api.call('POST', '/v2/:parked/run', { body: { input: { n: 2 } }, headers }), 409, /Idempotency-Key/);
  const other = await api.call('POST', '/v2/:parked/run', { body: { input: { n: 1 } }, headers: { 'idempotency-key': 'order-2' } });
  t.not(other.json['id'], first.json['id']);
  const sync = { 'idempotency-key': 'order-3' };
  const done = await api.call('POST', '/v2/:echo/runsync', { body: { input: { n: 3 } }, headers: sync });
  t.is((await api.call('POST', '/v2/:echo/runsync', { body: { input: { n: 3 } }, headers: sync })).json['id'], done.json['id']);
});

test('Idempotency-Key: must be visible ASCII', async (t) => {
  const headers = { 'idempotency-key': 'a b' };
  isProblem(t, await api.call('POST', '/v2/:parked/run', { body: { input: {} }, headers }), 400, /Idempotency-Key: must be/);
});

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
