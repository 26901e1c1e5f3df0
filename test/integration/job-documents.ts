/** GET /v2/<endpoint>/jobs/<job>/input and …/output: whose keys read them, and what they are. */
import { join } from 'node:path';

import test from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const start = sharedStack(test, { CAPSTAN_WEBHOOK_ALLOW_PRIVATE: 'true' });
let stack: Stack;
let endpoint: string;

test.before(async () => {
  stack = await start();
  endpoint = (await deployed()).get('hostile') ?? '';
});

/** In an environment of its own: other cases of the stack count the jobs of their endpoints. */
function deployed(): Promise<ReadonlyMap<string, string>> {
  return stack.deploy(join(import.meta.dirname, '../console/app'), '--env', 'documents');
}

async function keyOf(mutation: string): Promise<string> {
  const response = await stack.call('/graphql', { method: 'POST', body: JSON.stringify({ query: `mutation { ${mutation} }` }) });
  const { data } = (await response.json()) as { data: Readonly<Record<string, { text?: string; keyText?: string }>> };
  const [made] = Object.values(data);
  return made?.text ?? made?.keyText ?? '';
}

function read(job: string, name: string, key: string): Promise<Response> {
  const headers = key === '' ? {} : { authorization: `Bearer ${key}` };
  return fetch(`${stack.url}/v2/${endpoint}/jobs/${job}/${name}`, { headers });
}

test('each document is returned alone, byte for byte, also above 64 KiB', async (t) => {
  for (const input of [{ text: 'ä "quoted"' }, { text: 'x'.repeat(200_000) }]) {
    const job = await stack.run(endpoint, input);
    await stack.ended(endpoint, job);
    const sent = await read(job, 'input', stack.apiKey);
    t.is(sent.status, 200);
    t.is(sent.headers.get('content-type'), 'application/json; charset=utf-8');
    t.is(sent.headers.get('content-disposition'), `attachment; filename="${job}-input.json"`);
    t.is(await sent.text(), JSON.stringify(input));
    t.deepEqual(((await (await read(job, 'output', stack.apiKey)).json()) as { input: object }).input, input);
  }
});

test('only keys that may read the job get it', async (t) => {
  const job = await stack.run(endpoint, {});
  await stack.ended(endpoint, job);
  const reader = await keyOf('createApiKey(name: "reader", scope: READ_ONLY) { text }');
  const some = await keyOf(`createApiKey(name: "some", scope: ENDPOINTS, endpoints: ["${endpoint}"]) { text }`);
  await keyOf('createEnvironment(name: "staging") { name }');
  const elsewhere = await keyOf('createApiKey(name: "elsewhere", scope: ENVIRONMENT, environment: "staging") { text }');
  const other = await keyOf('createAccount(id: "other") { keyText }');
  const statuses = async (key: string): Promise<number[]> =>
    Promise.all(['input', 'output'].map(async (name) => (await read(job, name, key)).status));
  t.deepEqual(await statuses(reader), [200, 200]);
  t.deepEqual(await statuses(some), [200, 200]);
  t.deepEqual(await statuses(elsewhere), [404, 404]);
  t.deepEqual(await statuses(other), [404, 404]);
  t.deepEqual(await statuses(''), [401, 401]);
});

test('a job that does not exist, and a document that there is not, are not found', async (t) => {
  const unknown = await read('01a21456-8ef0-7741-adac-d20b529232ba-u1', 'input', stack.apiKey);
  t.is(unknown.status, 404);
  const failing = (await deployed()).get('failing') ?? '';
  const job = await stack.run(failing, {});
  await stack.ended(failing, job);
  const none = await fetch(`${stack.url}/v2/${failing}/jobs/${job}/output`, { headers: { authorization: `Bearer ${stack.apiKey}` } });
  t.is(none.status, 404);
  t.regex(((await none.json()) as { detail: string }).detail, /has no output/);
});
