/** The tool against a gateway that it reaches over HTTP alone: everything between a first deployment and an empty environment. */
import { execFile } from 'node:child_process';
import { mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { Stack } from '../support/stack.ts';
import { shared } from './fakes/run.ts';
import { ownFolder } from '../support/own-folder.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The tool on another machine: a home and a data folder of its own, nothing but an address and a key. */
function runTool(home: string, args: readonly string[], variables: Readonly<Record<string, string>> = {}, stdin = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...shared, HOME: home, CAPSTAN_DATA_DIR: join(home, 'data'), NO_COLOR: '1', ...variables };
    const child = execFile(process.execPath, [tool, ...args], { cwd: home, env }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code), out, err });
    });
    child.stdin?.end(stdin);
  });
}

function runAll(home: string, commands: readonly (readonly string[])[]): Promise<(Ran & { readonly args: readonly string[] })[]> {
  return Promise.all(commands.map(async (args) => ({ args, ...(await runTool(home, args)) })));
}

test('a machine that reaches only the gateway deploys, changes, goes back and cleans up', async (t) => {
  t.timeout(600_000, 'some forty runs of the tool, of which ava hears nothing');
  const home = await ownFolder('capstan-remote');
  const stack = await Stack.start();
  t.teardown(async () => {
    await stack.close();
    await rm(home, { recursive: true });
  });
  const app = join(home, 'app');
  await mkdir(app);
  const write = async (answer: string): Promise<void> => {
    await writeFile(join(app, 'hello.ts'), `export const hello = () => ${JSON.stringify(answer)} + (process.env.MARK ?? '');\n`);
    await writeFile(
      join(app, 'tool_manifest.json'),
      JSON.stringify({ resources: { hello: { functions: [{ name: 'hello', module: 'hello.ts' }] } } }),
    );
  };
  const ok = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await runTool(home, args);
    t.is(code, 0, `${args.join(' ')}: ${err}`);
    return out;
  };
  const json = async <T>(...args: string[]): Promise<T> => JSON.parse(await ok(...args, '--json')) as T;

  const refused = await runTool(home, ['login', '--url', stack.url], {}, 'not-a-key\n');
  t.is(refused.code, 77);
  t.false(refused.err.includes('not-a-key'));
  const loggedIn = await runTool(home, ['login', '--url', stack.url], {}, `${stack.apiKey}\n`);
  t.is(loggedIn.code, 0, loggedIn.err);
  t.is((await stat(join(home, '.config/capstan/login.json'))).mode & 0o777, 0o600);

  await write('one');
  const [first] = await json<{ id: string; url: string }[]>('deploy', app, '--env', 'staging');
  const id = first?.id ?? '';
  t.is(first?.url, `${stack.url}/v2/${id}`);
  const answer = async (): Promise<unknown> => (await stack.ended(id, await stack.run(id, {}))).output;
  t.is(await answer(), 'one');
  await write('two');
  await ok('deploy', app, '--env', 'staging');
  t.is(await answer(), 'two');

  t.regex(await ok('env', 'list'), /staging +1 +3 +2/);
  t.is((await ok('env', 'get', 'staging')).trim(), `hello ${stack.url}/v2/${id}`);
  const builds = await json<{ digest: string; current: string[] }[]>('builds', 'list', 'hello', '--env', 'staging');
  t.deepEqual(
    builds.map(({ current }) => current),
    [['hello'], []],
  );
  await ok('rollback', '--env', 'staging');
  t.is(await answer(), 'one');
  await ok('rollback', 'hello', '--env', 'staging', '--to', builds[0]?.digest.slice(0, 10) ?? '');
  t.is(await answer(), 'two');

  const changed = await json<{ settings: { workersMax: number; idleTimeout: number } }>(
    'endpoints',
    'set',
    'hello',
    'workersMax=5',
    'idleTimeout=30',
    'env.MARK=!',
  );
  t.like(changed.settings, { workersMax: 5, idleTimeout: 30 });
  t.is(await answer(), 'two!');
  const wrong = await runTool(home, ['endpoints', 'set', 'hello', 'workersMax=many']);
  t.deepEqual([wrong.code, wrong.err.split('\n')[0]], [2, '✗ workersMax: must be an integer between 0 and 1000, not "many"']);
  const unknown = await runTool(home, ['endpoints', 'set', 'hello', 'workerMax=3']);
  t.deepEqual([unknown.code, unknown.err.split('\n')[0]], [2, '✗ unknown setting "workerMax" (did you mean workersMax?)']);
  t.is((await runTool(home, ['endpoints', 'set', 'hello', 'workersMax=31'])).code, 73);

  // The fleet through the gateway; what only the scheduler knows says where to ask for it.
  const [node] = await json<{ id: string; name: string; draining: boolean }[]>('node', 'list');
  t.like(node, { draining: false });
  t.like(await json<{ endpoint: string; nodeId: string }[]>('workers', 'list', '--endpoint', 'hello'), [
    { endpoint: 'hello', nodeId: node?.id },
  ]);
  const detail = await json<object>('endpoints', 'get', 'hello');
  t.like(detail, {
    id,
    url: `${stack.url}/v2/${id}`,
    settings: { idleTimeoutS: 30 },
    workerList: [{ endpoint: 'hello' }],
    failedStarts: 0,
  });
  t.like(await json<object>('endpoints', 'get', 'hello', '--url', stack.url), { id });
  t.regex(await ok('endpoints', 'get', 'hello'), /DECISION/);
  t.deepEqual(await json('webhooks', 'list'), []);
  t.like(await json('node', 'drain', node?.name ?? ''), { draining: true });
  t.like(await json('node', 'resume', node?.id ?? ''), { draining: false });
  t.is((await runTool(home, ['node', 'drain', 'none'])).code, 66);
  t.is((await runTool(home, ['webhooks', 'redeliver', 'none'])).code, 66);
  // Join tokens, too: only what belongs to the scheduler's host is refused here, and says where to run it.
  const token = await json<{ id: string; joinToken: string }>(
    'node',
    'token',
    'create',
    '--name',
    'rack',
    '--max-uses',
    '1',
    '--expires-in',
    'never',
  );
  t.like(
    (await json<{ id: string }[]>('node', 'token', 'list')).find(({ id }) => id === token.id),
    { name: 'rack', maxUses: 1, uses: 0, expiresAt: null },
  );
  t.false((await ok('node', 'token', 'list')).includes(token.joinToken));
  t.like(await json('node', 'token', 'revoke', token.id), { id: token.id });
  t.is((await json<{ id: string }[]>('node', 'token', 'list')).filter(({ id }) => id === token.id).length, 0);
  t.like((await json<object[]>('machine-types', 'list'))[0], { nodes: 1 });
  const schedulerOnly = [
    ['master-key', 'status'],
    ['backup', 'copy'],
  ];
  for (const { args, code, err } of await runAll(home, schedulerOnly)) {
    t.is(code, 78, args.join(' '));
    t.regex(err, /this command connects to the scheduler\nhint: Run it on the scheduler's host with its --data-dir, or set /);
  }
  // Another scheduler is never taken for the one of the gateway.
  t.is((await runTool(home, ['node', 'list', '--scheduler', '127.0.0.1:7070'])).code, 2);

  // What an operator does for accounts, and what an application's key of the same account may not.
  const made = await json<{ id: string; key: string }>('account', 'create', 'team', '--workers', '7');
  t.like(await json('account', 'get', '--url', stack.url), [{ id: 'default' }]);
  t.deepEqual((await json<{ name: string }[]>('keys', 'list', '--account', 'team')).length, 1);
  const application = await json<{ text: string }>('keys', 'create', 'application');
  for (const mine of [
    ['account', 'list'],
    ['node', 'token', 'create'],
    ['keys', 'list', '--account', 'team'],
    ['keys', 'create', 'more', '--scope', 'operator'],
  ])
    t.is((await runTool(home, mine, { SERVICE_API_KEY: application.text })).code, 77, mine.join(' '));
  t.like(JSON.parse((await runTool(home, ['account', 'get', '--json'], { SERVICE_API_KEY: made.key })).out), [{ id: 'team' }]);
  const rules = await json('account', 'set', 'team', '--isolation', 'container', '--runtimes', 'process, container', '--network', 'none');
  t.like(rules, [
    { isolation: { least: 'container', runtimes: ['process', 'container'], network: 'none' }, quota: { workers: 7, used: 0 } },
  ]);
  t.regex(await ok('account', 'list'), /team .* container \(process, container\) +none /);
  const strong = await runTool(home, ['account', 'set', 'team', '--isolation', 'strong']);
  t.is(strong.code, 2);
  t.regex(strong.err, /^✗ --isolation: "strong" must be one of none, user, sandbox, container, gvisor$/m);
  t.like(await json('account', 'delete', 'team'), { id: 'team' });
  t.is((await runTool(home, ['account', 'get'], { SERVICE_API_KEY: made.key })).code, 77);
  await ok('keys', 'revoke', 'application');

  const surplus = [
    ['endpoints', 'get', 'hello', 'more'],
    ['endpoints', 'list', 'hello'],
    ['env', 'list', 'more'],
    ['keys', 'list', 'more'],
    ['account', 'get', 'more'],
    ['jobs', 'purge', 'hello', 'more'],
    ['node', 'token', 'list', 'more'],
    ['webhooks', 'list', 'more'],
  ];
  for (const { args, code, err } of await runAll(home, surplus)) {
    t.is(code, 2, args.join(' '));
    t.regex(err, /^✗ too many arguments for '\w+'\. Expected .*(more|hello)\.\nhint: Usage: capstan /);
  }

  t.regex(await ok('jobs', 'list', 'hello'), /COMPLETED/);
  const noJob = await runTool(home, ['jobs', 'get', 'hello', 'none']);
  t.is(noJob.code, 66);
  t.regex(noJob.err, /^✗ (?!not found: ).*none/, 'the title of the problem is not repeated');
  await ok('logs', 'hello');
  const key = await json<{ id: string; text: string }>('keys', 'create', 'reader', '--scope', 'read-only', '--expires-in', '1h');
  const reader = { SERVICE_API_KEY: key.text };
  t.is((await runTool(home, ['endpoints', 'list', '--json'], reader)).code, 0);
  t.is((await runTool(home, ['endpoints', 'delete', 'hello', '--env', 'staging'], reader)).code, 77);
  t.false((await ok('keys', 'list')).includes(key.text));
  await ok('keys', 'revoke', key.id);
  t.is((await runTool(home, ['endpoints', 'list'], reader)).code, 77);
  t.regex(await ok('account', 'get'), /default +1 +5\/30/);

  t.is((await runTool(home, ['env', 'delete', 'staging'])).code, 75);
  t.is((await runTool(home, ['undeploy', '--env', 'staging'])).code, 2);
  t.regex((await runTool(home, ['undeploy', 'hello', '--env', 'staging'])).err, /^✓ Deleted endpoint hello in environment staging$/m);
  await ok('env', 'delete', 'staging');
  t.deepEqual(await json('endpoints', 'list'), []);
  await ok('logout');
  t.is((await runTool(home, ['endpoints', '--url', stack.url])).code, 78);
  const nobody = await runTool(home, ['endpoints', '--url', 'http://127.0.0.1:9'], { SERVICE_API_KEY: 'x' });
  t.deepEqual([nobody.code, nobody.err.split('\n')[0]], [69, '✗ the gateway at http://127.0.0.1:9 does not respond']);
});
