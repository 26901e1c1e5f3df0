/**
 * Integers beyond 2^53 keep all their digits from the caller to the function and back, on every way: queue, chunks,
 * routes, the tool, both SDKs, webhooks and log fields.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { promisify } from 'node:util';

import test from 'ava';

import { EndpointClient } from '../../sdk/typescript/client.ts';
import { folderOf } from '../support/folder.ts';
import { sharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const start = sharedStack(test, { CAPSTAN_WEBHOOK_ALLOW_PRIVATE: 'true' });
const tool = join(import.meta.dirname, '../../cli/main.ts');
const ID = '1970670598291982291';

const TYPESCRIPT = `
export const ids = (id: bigint, more: unknown = null) => {
  console.log('{"message":"seen","id":' + id + '}');
  return { id, more };
};
export const web_ids = (id: bigint, more: unknown = null) => ({ id, more });
export function* chunks(id: bigint) { yield id; yield [id]; }
export const small = (n: number) => n;
`;
const PYTHON = `
def py_ids(id: int, more=None):
    return {"id": id, "more": more}
def py_web_ids(id: int, more=None):
    return {"id": id, "more": more}
`;
const CLIENT = `
import os, sys, capstan
endpoint = capstan.EndpointClient(sys.argv[1], api_key=os.environ["SERVICE_API_KEY"], base_url=os.environ["CAPSTAN_URL"])
print(endpoint.run_sync({"id": ${ID}, "more": [${ID}]}))
`;

test('integers keep their digits on every way', async (t) => {
  t.timeout(300_000, 'a stack and some runs of the tool');
  const stack = await start();
  const app = join(await folderOf(t), 'app');
  await mkdir(app);
  await writeFile(join(app, 'app.ts'), TYPESCRIPT);
  await writeFile(join(app, 'main.py'), PYTHON);
  const queue = (name: string, module = 'app.ts'): object => ({ [name]: { functions: [{ name, module }] } });
  const resources = {
    ...queue('ids'),
    ...queue('chunks'),
    ...queue('small'),
    ...queue('py_ids', 'main.py'),
    web: { is_load_balanced: true, functions: [{ name: 'web_ids', module: 'app.ts' }], workersMax: 1 },
    pyweb: { is_load_balanced: true, functions: [{ name: 'py_web_ids', module: 'main.py' }], workersMax: 1 },
  };
  const routes = {
    web: { 'POST /ids': 'web_ids', 'GET /ids/{id}': 'web_ids' },
    pyweb: { 'POST /ids': 'py_web_ids', 'GET /ids/{id}': 'py_web_ids' },
  };
  await writeFile(join(app, 'tool_manifest.json'), JSON.stringify({ resources, routes }));
  const endpoints = await stack.deploy(app);
  const idOf = (name: string): string => endpoints.get(name) ?? '';

  const http = async (path: string, body?: string): Promise<string> => {
    const headers = { authorization: `Bearer ${stack.apiKey}`, 'content-type': 'application/json' };
    const response = await fetch(`${stack.url}${path}`, { headers, ...(body === undefined ? {} : { method: 'POST', body }) });
    return response.text();
  };
  const call = async (...args: string[]): Promise<string> => {
    const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    return (await promisify(execFile)(process.execPath, [tool, ...args], { cwd: app, env })).stdout;
  };
  const digits = (text: string): string => text.replaceAll(/\s/g, '');
  const input = `{"id":${ID},"more":{"list":[${ID},1]}}`;
  const output = input;

  const delivery = createServer();
  const bodies: string[] = [];
  delivery.on('request', (request, response) => {
    void textOf(request).then((body) => {
      bodies.push(body);
      response.end();
    });
  });
  delivery.listen(0, '127.0.0.1');
  await once(delivery, 'listening');
  t.teardown(() => delivery.close());
  const webhook = `http://127.0.0.1:${(delivery.address() as AddressInfo).port}/`;

  for (const name of ['ids', 'py_ids']) {
    const answer = await http(`/v2/${idOf(name)}/runsync`, `{"input":${input},"webhook":"${webhook}"}`);
    t.true(digits(answer).includes(`"output":${output}`), answer);
    t.is(digits(await call('call', name, `id=${ID}`, `more={"list":[${ID},1]}`)), output);
    await writeFile(join(app, 'input.json'), input);
    t.is(digits(await call('call', name, '--json', 'input.json')), output);
    const job = (await call('call', name, `id=${ID}`, '--async')).trim();
    await until('the job ends', async () => (await stack.status(idOf(name), job)).status === 'COMPLETED');
    t.true(digits(await call('jobs', 'get', name, job)).includes(`"output":{"id":${ID},"more":null}`));
    t.true(digits(await call('jobs', 'list', name, '--json')).includes(`"output":{"id":${ID},"more":null}`));
    const client = new EndpointClient(idOf(name), { apiKey: stack.apiKey, baseUrl: stack.url });
    t.deepEqual(await client.runSync({ id: BigInt(ID), more: [BigInt(ID), 1] }), { id: BigInt(ID), more: [BigInt(ID), 1] });
  }
  await until('both webhooks are delivered', () => Promise.resolve(bodies.length === 2));
  for (const body of bodies) t.true(digits(body).includes(`"output":${output}`), body);

  t.is(await call('call', 'chunks', `id=${ID}`, '--stream'), `${ID}\n[${ID}]\n`);
  t.is(digits(await call('call', 'chunks', `id=${ID}`)), `[${ID},[${ID}]]`);
  for (const name of ['web', 'pyweb']) {
    t.is(digits(await http(`/lb/${idOf(name)}/ids`, input)), output);
    t.is(digits(await http(`/lb/${idOf(name)}/ids/${ID}`)), `{"id":${ID},"more":null}`);
  }

  const refused = await t.throwsAsync(call('call', 'small', `n=${ID}`));
  t.regex(String(refused), new RegExp(`FAILED: n: must be declared as bigint to hold ${ID}`));
  const large = await t.throwsAsync(call('call', 'small', 'n=1e400'));
  t.regex(String(large), /input: the number 1e400 is beyond the range of a number/);

  const env = { ...stack.variables, PYTHONPATH: join(import.meta.dirname, '../../sdk/python'), CAPSTAN_URL: stack.url };
  const python = await promisify(execFile)('python3', ['-c', CLIENT, idOf('ids')], { env });
  t.is(digits(python.stdout).replaceAll("'", '"'), `{"id":${ID},"more":[${ID}]}`);

  const lines = await http(`/v2/${idOf('ids')}/logs?contains=seen`);
  t.true(lines.includes(`"fields":{"id":${ID}}`), lines);
  t.true((await call('logs', 'ids', '--grep', 'seen', '--json')).includes(ID));
});
