/** Deploying to a real scheduler behind a real gateway: build, upload, endpoints, what is printed, and what is listed afterwards. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import { until } from '../support/until.ts';
import { bin, KEY, MANIFEST, rowOf, rowsOf, SOURCE, world, type Row } from './fakes/deploy-world.ts';
import { run } from './fakes/run.ts';

test('deploy prints the endpoints by kind and the exact next command; endpoints lists them', async (t) => {
  const { capstan, folder, url } = await world(t);
  const deployed = await capstan('deploy', folder);
  t.is(deployed.code, 0, deployed.stderr);
  t.is(deployed.stdout, '');
  // How far an upload is, is printed only where it takes long.
  const lines = deployed.stderr.split('\n').filter((line) => !line.startsWith('=> uploading '));
  t.is(lines[0], `=> building ${folder}`);
  t.regex(lines[1] ?? '', /^✓ 3 files, \d+ B, sha256 [0-9a-f]{12}$/);
  t.is(lines[2], `=> deploying to ${url}`);
  t.is(lines[3], '✓ environment default: 2 created, 0 updated');

  const listed = rowsOf((await capstan('endpoints', 'list', '--json')).stdout);
  const orders = rowOf(listed, 'orders');
  const web = rowOf(listed, 'web');
  t.like(orders, {
    kind: 'queue',
    url: `${url}/v2/${orders.id}`,
    environment: 'default',
    workersMin: 0,
    workersMax: 2,
    workers: 0,
    jobsInQueue: 0,
    jobsInProgress: 0,
  });
  t.like(web, { kind: 'load-balanced', routes: { 'GET /hello': 'hello' } });
  t.deepEqual(lines.slice(4), [
    'Load-balanced endpoints',
    `  web  ${url}/lb/${web.id}`,
    '    GET /hello → hello',
    'Queue-based endpoints',
    `  orders  ${orders.url}`,
    'next: capstan call orders id=1',
    `next: curl -s ${orders.url}/runsync -H "Authorization: Bearer $SERVICE_API_KEY" -H 'Content-Type: application/json' -d '{"input":{"id":1}}'`,
    '',
  ]);
});

test('an endpoint that is declared as paused is deployed as paused', async (t) => {
  const { capstan, folder } = await world(t);
  const { orders } = MANIFEST.resources;
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify({ resources: { orders: { ...orders, workersMax: 0 } } }));
  const { stdout, stderr } = await capstan('deploy', folder, '--json');
  t.like(rowsOf(stdout)[0], { name: 'orders', workersMin: 0, workersMax: 0 }, stderr);
});

test('the same folder again updates the same endpoints; another environment has its own', async (t) => {
  const { capstan, folder } = await world(t);
  const first = rowsOf((await capstan('deploy', folder, '--json')).stdout);
  const again = rowsOf((await capstan('deploy', folder, '--json')).stdout);
  const other = rowsOf((await capstan('deploy', folder, '--env', 'staging', '--json')).stdout);
  const ids = (rows: readonly Row[]): string[] => rows.map(({ id }) => id);
  t.deepEqual(ids(again), ids(first));
  t.true(first.every(({ created }) => created === true));
  t.true(again.every(({ created }) => created === false));
  t.true(other.every(({ id, environment }) => environment === 'staging' && !ids(first).includes(id)));
  t.is(rowsOf((await capstan('endpoints', 'list', '--env', 'staging', '--json')).stdout).length, 2);
});

test('what stays in the folder is the artifact and the manifest, without secrets', async (t) => {
  const { capstan, folder } = await world(t);
  const { stderr } = await capstan('deploy', folder);
  const manifest = await readFile(join(folder, '.tool/tool_manifest.json'), 'utf8');
  t.is((JSON.parse(manifest) as { project_name: string }).project_name, 'shop');
  for (const text of [manifest, stderr]) {
    t.false(text.includes('s3cret-value'));
    t.false(text.includes(KEY));
  }
});

test('endpoints of foreign images need no artifact: nothing is uploaded, and the same image again changes nothing', async (t) => {
  const { capstan, folder, url } = await world(t);
  const write = (resources: object): Promise<void> => writeFile(join(folder, 'tool_manifest.json'), JSON.stringify({ resources }));
  await write({ llm: { imageName: 'vllm/worker:1', workersMax: 1 } });
  const first = rowsOf((await capstan('deploy', folder, '--json')).stdout);
  await writeFile(join(folder, 'notes.txt'), 'something else');
  const again = rowsOf((await capstan('deploy', folder, '--json')).stdout);
  const { releaseId } = rowOf(first, 'llm');
  t.regex(releaseId, /^\w+$/);
  t.like(again, [{ name: 'llm', buildDigest: '', releaseId }]);
  const digest = createHash('sha256')
    .update(await readFile(join(folder, '.tool/artifact.tar.gz')))
    .digest('hex');
  const { status } = await fetch(`${url}/builds/${digest}`, { method: 'HEAD', headers: { authorization: `Bearer ${KEY}` } });
  t.is(status, 404);
});

test('a quota that does not suffice refuses all, with its exit code', async (t) => {
  const { capstan, folder } = await world(t);
  const manifest = structuredClone(MANIFEST);
  manifest.resources.orders.workersMax = 31;
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify(manifest));
  const { code, stderr } = await capstan('deploy', folder);
  t.is(code, 73);
  t.regex(stderr, /^✗ [^\n]*30[^\n]*\nhint: /m);
  t.deepEqual(rowsOf((await capstan('endpoints', 'list', '--json')).stdout), []);
});

test('a wrong key: one line that says so, without the key', async (t) => {
  const { folder, url } = await world(t);
  for (const args of [
    ['endpoints', 'list'],
    ['deploy', folder],
  ]) {
    const running = run([bin, ...args, '--url', url], { cwd: folder, env: { SERVICE_API_KEY: 'cap_wrong' } });
    t.is(await running.ended, 77);
    t.regex(running.stderr(), /✗ the gateway at .* rejected the API key: .*\nhint: .*\n$/);
    t.false(running.stderr().includes('cap_wrong'));
  }
});

test('logs, nodes and workers of a service without nodes', async (t) => {
  const { capstan, folder } = await world(t);
  await capstan('deploy', folder);
  t.deepEqual(JSON.parse((await capstan('node', 'list', '--json')).stdout), []);
  t.deepEqual(JSON.parse((await capstan('workers', 'list', '--json')).stdout), []);
  t.is((await capstan('workers', 'list', '--endpoint', 'orders')).stdout.split('\n')[0], 'ID  ENDPOINT  STATUS  JOBS  NODE  REASON');
  t.deepEqual(JSON.parse((await capstan('logs', 'orders', '--json')).stdout), []);
  const missing = await capstan('logs', 'nothing');
  t.is(missing.code, 66);
  t.regex(missing.stderr, /^✗ endpoint nothing not found\nhint: /);
});

test('a name of two environments is ambiguous until --env names one, on every command that names an endpoint', async (t) => {
  const { capstan, folder } = await world(t);
  for (const environment of ['default', 'staging']) t.is((await capstan('deploy', folder, '--env', environment)).code, 0);
  const staging = (JSON.parse((await capstan('endpoints', 'list', '--env', 'staging', '--json')).stdout) as Row[]).find(
    ({ name }) => name === 'orders',
  );
  const job = (await capstan('call', 'orders', '--env', 'staging', '--async')).stdout.trim();
  t.regex(job, /-u1$/);
  for (const args of [
    ['endpoints', 'get', 'orders'],
    ['endpoints', 'set', 'orders', 'workersMax=1'],
    ['call', 'orders', '--async'],
    ['jobs', 'list', 'orders'],
    ['jobs', 'get', 'orders', job],
    ['jobs', 'cancel', 'orders', job],
    ['jobs', 'purge', 'orders'],
    ['logs', 'orders'],
    ['workers', 'list', '--endpoint', 'orders'],
    ['open', 'orders'],
  ]) {
    const refused = await capstan(...args);
    t.is(refused.code, 2, args.join(' '));
    t.regex(
      refused.stderr,
      /^✗ endpoint: "orders" is ambiguous; use an ID: \w+ in default, \w+ in staging\nhint: Or name its environment: --env default\n$/,
    );
    const done = await capstan(...args, '--env', 'staging');
    t.is(done.code, 0, `${args.join(' ')}: ${done.stderr}`);
  }
  t.is((await capstan('jobs', 'get', staging?.id ?? '', job, '--json')).code, 0);
});

test('complete lists valid names only, in bounded time, and never an error', async (t) => {
  const { capstan, folder, url } = await world(t);
  t.deepEqual(await capstan('complete', 'endpoint'), { code: 0, stdout: '', stderr: '' });
  for (const environment of ['default', 'staging']) await capstan('deploy', folder, '--env', environment);
  // On a busy machine the answer may come after its time, and is none.
  const completed = (what: string): Promise<string> => until(what, async () => (await capstan('complete', what)).stdout || null);
  t.is(await completed('endpoint'), 'orders\nweb\n');
  t.is(await completed('environment'), 'default\nstaging\n');
  t.is((await capstan('complete', 'endpoint', '--env', 'nothing')).stdout, '');
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  for (const [to, key] of [
    [url, 'cap_wrong'],
    [url, ''],
    ['http://127.0.0.1:1', KEY],
    [`http://127.0.0.1:${port}`, KEY],
    ['no url', KEY],
  ]) {
    const running = run([bin, 'complete', 'endpoint'], { cwd: folder, env: { SERVICE_API_KEY: key, CAPSTAN_URL: to, HOME: folder } });
    t.is(await running.ended, 0, to);
    t.is(running.stdout() + running.stderr(), '', to);
  }
  const hostile = createHttpServer((_request, response) => {
    const row = (name: string): object => ({ name, routes: [], functions: [], settings: {}, workers: {}, queue: {} });
    response.end(JSON.stringify({ data: { endpoints: ['fine', '$(touch /tmp/x)', '`id`', 'a b', '-x'].map(row) } }));
  }).listen(0, '127.0.0.1');
  await once(hostile, 'listening');
  t.teardown(() => hostile.close());
  const env = { SERVICE_API_KEY: KEY, CAPSTAN_URL: `http://127.0.0.1:${(hostile.address() as AddressInfo).port}` };
  const names = await until('names', async () => {
    const running = run([bin, 'complete', 'endpoint'], { cwd: folder, env });
    t.is(await running.ended, 0);
    return running.stdout() || null;
  });
  t.is(names, 'fine\n');
});

test('open prints the page of an endpoint, or of the API', async (t) => {
  const { capstan, folder, url } = await world(t);
  await capstan('deploy', folder);
  const rows = JSON.parse((await capstan('endpoints', 'list', '--json')).stdout) as Row[];
  const id = rows.find(({ name }) => name === 'web')?.id ?? '';
  t.is((await capstan('open')).stdout, `${url}/docs\n`);
  t.is((await capstan('open', 'orders')).stdout, `${url}/docs\n`);
  t.is((await capstan('open', 'web')).stdout, `${url}/lb/${id}/docs\n`);
  t.regex(await (await fetch(`${url}/lb/${id}/docs`)).text(), /<html/i);
  t.is((await capstan('open', 'nothing')).code, 66);
});

test('a deployment above the quota names the command that raises it', async (t) => {
  const { capstan, folder } = await world(t);
  const manifest = { ...MANIFEST, resources: { ...MANIFEST.resources, orders: { ...MANIFEST.resources.orders, workersMax: 40 } } };
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify(manifest));
  const refused = await capstan('deploy', folder);
  t.is(refused.code, 73);
  const command = /An operator raises it with: capstan (account set default --workers 41)$/m.exec(refused.stderr)?.[1] ?? '';
  t.is((await capstan(...command.split(' '))).code, 0, refused.stderr);
  t.is((await capstan('deploy', folder)).code, 0);
});

test('an artifact of many frames arrives whole', async (t) => {
  const { capstan, folder } = await world(t);
  await writeFile(join(folder, 'big.bin'), randomBytes(3_000_000));
  const { code, stderr } = await capstan('deploy', folder);
  t.is(code, 0, stderr);
});

test('a gateway that is away is tried again a few times, then named', async (t) => {
  const { folder } = await world(t);
  const running = run([bin, 'deploy', folder, '--url', 'http://127.0.0.1:1'], { cwd: folder, env: { SERVICE_API_KEY: KEY } });
  t.is(await running.ended, 69);
  t.is(running.stderr().match(/^! the gateway at http:\/\/127\.0\.0\.1:1 does not respond; retrying in \d+ ms$/gm)?.length, 3);
  t.regex(running.stderr(), /✗ the gateway at http:\/\/127\.0\.0\.1:1 does not respond\nhint: .*\n$/);
  t.notRegex(running.stderr(), /sha256/, 'nothing is packed: a build may take minutes');
});

test('a missing or wrong key is refused before the build', async (t) => {
  const { folder, url, capstan } = await world(t);
  const keyless = run([bin, 'deploy', folder, '--url', url], { cwd: folder, env: { HOME: folder, SERVICE_API_KEY: '' } });
  t.is(await keyless.ended, 78);
  t.regex(keyless.stderr(), /^✗ SERVICE_API_KEY: no API key is set for /m);
  const wrong = run([bin, 'deploy', folder, '--url', url], { cwd: folder, env: { SERVICE_API_KEY: 'cap_wrong' } });
  t.is(await wrong.ended, 77);
  for (const { stderr } of [keyless, wrong]) t.notRegex(stderr(), /sha256/);
  t.deepEqual(JSON.parse((await capstan('endpoints', 'list', '--json')).stdout), []);
});

test('a dry run tells settings, names of the environment, routes, files and packages, and changes nothing', async (t) => {
  const { capstan, folder } = await world(t);
  const dry = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { code, stdout, stderr } = await capstan('deploy', folder, '--dry-run', '--json', ...args);
    t.is(code, 0, stderr);
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const state = async (): Promise<unknown> => JSON.parse((await capstan('endpoints', 'list', '--json')).stdout);
  t.like(await dry(), {
    endpoints: [
      { name: 'orders', change: 'create', env: { added: ['TOKEN'] } },
      { name: 'web', change: 'create' },
    ],
    build: { from: [] },
  });
  t.deepEqual(await state(), []);
  await capstan('deploy', folder);
  const deployed = await state();
  const nothing = { added: [], changed: [], removed: [] };
  t.like(await dry(), {
    endpoints: [
      { name: 'orders', change: 'none', settings: {} },
      { name: 'web', change: 'none' },
    ],
    files: nothing,
    packages: nothing,
  });

  const manifest = {
    ...MANIFEST,
    resources: { ...MANIFEST.resources, orders: { ...MANIFEST.resources.orders, workersMax: 3, env: { OTHER: 's3cret-value' } } },
    routes: { web: { 'GET /hello': 'hello', 'POST /hello': 'hello' } },
  };
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify(manifest));
  await writeFile(join(folder, 'orders.ts'), `${SOURCE}// changed\n`);
  await writeFile(join(folder, 'more.txt'), 'more');
  await mkdir(join(folder, 'node_modules/left-pad'), { recursive: true });
  await writeFile(join(folder, 'node_modules/left-pad/package.json'), '{"version":"1.3.0"}');
  const expected = {
    endpoints: [
      {
        name: 'orders',
        change: 'update',
        settings: { workersMax: { from: 2, to: 3 } },
        env: { added: ['OTHER'], removed: ['TOKEN'] },
        routes: nothing,
        functions: { added: [], removed: [] },
      },
      {
        name: 'web',
        change: 'update',
        settings: {},
        env: { added: [], removed: [] },
        routes: { added: ['POST /hello'], changed: [], removed: [] },
        functions: { added: [], removed: [] },
      },
    ],
    files: { added: ['more.txt'], changed: ['orders.ts', 'tool_manifest.json'], removed: [] },
    packages: { added: ['left-pad'], changed: [], removed: [] },
    untouched: [],
  };
  t.like(await dry(), expected);
  // Its own build replaced the artifact in the folder: now the deployed one is downloaded.
  t.like(await dry(), expected);
  const { stdout, stderr } = await capstan('deploy', folder, '--dry-run');
  for (const line of [
    '~ endpoint orders',
    '    ~ workersMax: 2 → 3',
    '    + env OTHER',
    '    - env TOKEN',
    '    + route POST /hello',
    '  + more.txt',
    '  ~ orders.ts',
    '  + left-pad 1.3.0',
  ])
    t.true(stdout.split('\n').includes(line), `${line} in:\n${stdout}`);
  t.regex(stderr, /✓ nothing was deployed\n$/);
  t.notRegex(stdout + stderr, /s3cret-value/);
  t.deepEqual(await state(), deployed);
  t.like(await dry('--env', 'elsewhere'), { endpoints: [{ change: 'create' }, { change: 'create' }] });
  t.is((await capstan('env', 'list', '--json')).stdout.includes('elsewhere'), false);
});
