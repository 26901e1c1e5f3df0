/** `capstan status` and what the tool says of a service that is not well. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { until } from '../support/until.ts';
import { bin, KEY, MANIFEST, rowOf, rowsOf, world } from './fakes/deploy-world.ts';
import { run } from './fakes/run.ts';

test('a build over the quota is refused at once, with the exit code of a quota', async (t) => {
  const { capstan, folder } = await world(t);
  await writeFile(join(folder, 'model.bin'), randomBytes(20_000));
  t.is((await capstan('account', 'set', 'default', '--build-bytes', '10kB')).code, 0);
  const refused = await capstan('deploy', folder);
  t.is(refused.code, 73, refused.stderr);
  t.notRegex(refused.stderr, /retrying|again shortly/);
  t.regex(refused.stderr, /^✗ .*bytes.*quota/m);
});

test('status names what needs attention, and its exit code says that not all is well', async (t) => {
  const { capstan, folder, url } = await world(t);
  await capstan('deploy', folder);
  const { id } = rowOf(rowsOf((await capstan('endpoints', 'list', '--json')).stdout), 'orders');
  const submitted = await fetch(`${url}/v2/${id}/run`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: '{"input":{}}',
  });
  t.is(submitted.status, 200);
  const { code, stdout } = await capstan('status');
  t.is(code, 69);
  t.regex(stdout, /^attention {2}1\n {2}✗ orders: 1 job waits: .+, since \d{4}-\d\d-\d\d [\d:]{8} UTC \(\d+s\) \[NO_CAPACITY\]$/m);
  t.regex(stdout, /^ {4}show why: capstan endpoints get orders$/m);
  t.regex(stdout, /^ {4}see docs\/runbook.md#jobs-wait-and-none-runs$/m);
  const json = JSON.parse((await capstan('status', '--json')).stdout) as { attention: { items: { kind: string; endpoint: string }[] } };
  t.like(json.attention.items[0], { kind: 'NO_CAPACITY', endpoint: id });

  const watching = run([bin, 'status', '--watch', '--env', 'default'], {
    cwd: folder,
    env: { SERVICE_API_KEY: KEY, CAPSTAN_URL: url, HOME: folder },
  });
  await until('it is shown twice', () => Promise.resolve(watching.stdout().split('NO_CAPACITY').length > 2 || null));
  watching.child.kill('SIGINT');
  t.is(await watching.ended, 69);
});

test('what scripts read has names, the same order each time, and the values that hold', async (t) => {
  const { capstan, folder, url } = await world(t);
  await capstan('deploy', folder);
  const more = (name: string) => ({ functions: [{ name, module: 'more' }], workersMax: 1 });
  const resources = { zebra: more('zebra'), apple: more('apple'), ...MANIFEST.resources };
  await writeFile(join(folder, 'more.ts'), 'export function zebra() { return 1; }\nexport function apple() { return 2; }\n');
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify({ ...MANIFEST, resources }));
  const deployed = await capstan('deploy', folder);
  t.is(deployed.code, 0, deployed.stderr);
  const rows = rowsOf((await capstan('endpoints', 'list', '--json')).stdout);
  const names = ['apple', 'orders', 'web', 'zebra'];
  t.deepEqual(
    rows.map(({ name }) => name),
    names,
    'by name, not by age',
  );
  const lines = (await capstan('env', 'get', 'default')).stdout.trimEnd().split('\n');
  t.deepEqual(
    lines,
    rows.map((row) => `${row.name} ${row.url}`),
  );
  t.true(lines[0]?.startsWith(`apple ${url}/v2/`), lines[0]);
  const settings = async (): Promise<unknown> => JSON.parse((await capstan('endpoints', 'get', 'orders', '--json')).stdout);
  t.like(await settings(), { settings: { maxAttempts: 2 } }, "the service's own value");
  t.regex((await capstan('endpoints', 'get', 'orders')).stdout, /maxAttempts\s+2\b/);
  t.is((await capstan('endpoints', 'set', 'orders', 'maxAttempts=5')).code, 0);
  t.like(await settings(), { settings: { maxAttempts: 5 } });
});

test('status and whoami say what is up, where, and whose the key is', async (t) => {
  const { capstan, folder, url } = await world(t);
  await capstan('deploy', folder);
  const { code, stdout } = await capstan('status');
  t.is(code, 0);
  t.true(stdout.startsWith(`service    ${url} (--url or CAPSTAN_URL): up, version `), stdout);
  t.regex(stdout, /^you {8}account default, key .*\(cap_.*…, scope OPERATOR\)$/m);
  t.regex(stdout, /^workers {4}3 of 30 of the quota$/m);
  t.regex(stdout, /^attention {2}nothing$/m);
  t.regex(stdout, /^orders {2}default {6}queue {10}0\/2/m);
  t.notRegex(stdout, new RegExp(KEY));
  t.like(JSON.parse((await capstan('status', '--json')).stdout), { url, state: 'up', problem: '', owner: { account: { id: 'default' } } });
  t.like(JSON.parse((await capstan('whoami', '--json')).stdout), { url, account: 'default', key: { scope: 'OPERATOR' } });
  const narrow = (await capstan('keys', 'create', 'narrow', '--scope', 'endpoints', '--endpoints', 'orders')).stdout.trim();
  const env = { SERVICE_API_KEY: narrow, CAPSTAN_URL: url, HOME: folder };
  const limited = run([bin, 'whoami'], { cwd: folder, env });
  t.is(await limited.ended, 0, limited.stderr());
  t.regex(limited.stdout(), /^a key that does not cover the whole account, at /);
  const wrong = run([bin, 'status'], { cwd: folder, env: { ...env, SERVICE_API_KEY: 'cap_wrong' } });
  t.is(await wrong.ended, 69);
  t.regex(wrong.stderr(), /^✗ the gateway at .* rejected the API key: /);
  const down = run([bin, 'status', '--json', '--url', 'http://127.0.0.1:1'], { cwd: folder, env });
  t.is(await down.ended, 69);
  t.like(JSON.parse(down.stdout()), { state: 'down', endpoints: null, problem: 'the gateway at http://127.0.0.1:1 does not respond' });
});
