/** Two cells with real processes: an owner, a node and an account in each, and one gateway for both. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const app = join(import.meta.dirname, '../fault/app');

await withPostgres('cells as processes', tests);

function tests(postgres: PostgresServer): void {
  test('two cells serve side by side, and one without an owner takes nothing from the other', async (t) => {
    const folder = await folderOf(t);
    const ports = { east: await freePort(), west: await freePort() };
    const shared = {
      CAPSTAN_STORE: await postgres.newDatabase(),
      CAPSTAN_BLOB_DIR: join(folder, 'blobs'),
      CAPSTAN_BLOB_DIR_SHARED: 'true',
      CAPSTAN_SCHEDULER: `127.0.0.1:${ports.east},127.0.0.1:${ports.west}`,
      CAPSTAN_CONTAINER_SOCKET: 'none',
      CAPSTAN_ISOLATION: 'none',
      CAPSTAN_SPARE_HOSTS: '0',
      CAPSTAN_LOG_LEVEL: 'info',
      SERVICE_API_KEY: 'cap_operator-of-the-service',
    };
    const scheduler = (name: 'east' | 'west', cell: string) =>
      part(t, 'scheduler', /"status":"owner"|the queue is served here/, {
        ...shared,
        CAPSTAN_DATA_DIR: join(folder, name),
        CAPSTAN_GRPC_PORT: String(ports[name]),
        CAPSTAN_CELL: cell,
        // What its tenants run on has no sandbox.
        CAPSTAN_ACCOUNT_ISOLATION: 'none',
      });
    const east = await scheduler('east', 'default');
    const secret = (name: string): string => readFileSync(join(folder, 'east', 'secrets', name), 'utf8').trim();
    const gateway = await part(t, 'gateway', /gateway started/, {
      ...shared,
      CAPSTAN_DATA_DIR: join(folder, 'gateway'),
      CAPSTAN_GATEWAY_TOKEN: secret('gateway-token'),
      CAPSTAN_HTTP_PORT: '0',
    });
    const url = /"url":"([^"]+)"/.exec(gateway.log())?.[1] ?? '';
    const capstan = async (key: string, ...args: string[]): Promise<string> => {
      const env = { PATH: process.env['PATH'], HOME: folder, NO_COLOR: '1', CAPSTAN_URL: url, SERVICE_API_KEY: key };
      return (await promisify(execFile)(process.execPath, [tool, ...args], { cwd: folder, env })).stdout.trim();
    };
    const operator = shared.SERVICE_API_KEY;
    await until('the gateway serves', async () => (await fetch(`${url}/healthz`)).ok);

    // The cell, its owner, an account and a node in each.
    await capstan(operator, 'cell', 'create', 'west');
    await cp(join(folder, 'east', 'secrets'), join(folder, 'west', 'secrets'), { recursive: true });
    await scheduler('west', 'west');
    await until('the gateway knows the new cell', async () =>
      capstan(operator, 'account', 'create', 'tenant-w', '--cell', 'west', '--json').then(
        (text) => (keys.west = (JSON.parse(text) as { key: string }).key),
        (error: { stderr: string }) => {
          if (error.stderr.includes('does not know it yet')) return null;
          throw new Error(error.stderr);
        },
      ),
    );
    keys.east = (JSON.parse(await capstan(operator, 'account', 'create', 'tenant-e', '--json')) as { key: string }).key;
    await t.throwsAsync(capstan(operator, 'account', 'create', 'tenant-w'), {
      message: /tenant-w is taken in the cell west/,
    });
    for (const [name, cell] of [
      ['east', 'default'],
      ['west', 'west'],
    ] as const) {
      const { joinToken } = JSON.parse(await capstan(operator, 'node', 'token', 'create', '--cell', cell, '--json')) as {
        joinToken: string;
      };
      await part(t, 'agent', /session open/, {
        ...shared,
        CAPSTAN_DATA_DIR: join(folder, `node-${name}`),
        CAPSTAN_JOIN_TOKEN: joinToken,
        CAPSTAN_NODE_NAME: `node-${name}`,
      });
    }
    const nodes = JSON.parse(await capstan(operator, 'node', 'list', '--json')) as { name: string; cell: string }[];
    t.deepEqual(Object.fromEntries(nodes.map(({ name, cell }) => [name, cell])), { 'node-east': 'default', 'node-west': 'west' });
    const accounts = JSON.parse(await capstan(operator, 'account', 'list', '--json')) as { id: string; cell: string }[];
    t.deepEqual(
      accounts.map(({ id, cell }) => [id, cell]),
      [
        ['default', 'default'],
        ['tenant-e', 'default'],
        ['tenant-w', 'west'],
      ],
    );
    t.regex(await capstan(operator, 'node', 'list'), /CELL/);

    // Each account's jobs run on the node of its cell.
    const call = async (who: Tenant, path: string, body?: unknown): Promise<Answer> => {
      const response = await fetch(`${url}/v2/${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${keys[who]}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      return { status: response.status, json: (await response.json()) as Answer['json'] };
    };
    const ids = { east: await deploy(capstan, keys.east), west: await deploy(capstan, keys.west) };
    const echo = (who: Tenant, n: number) => call(who, `${ids[who].get('echo') ?? ''}/runsync`, { input: { n, ms: 0 } });
    for (const who of ['east', 'west'] as const) {
      const other = who === 'east' ? 'west' : 'east';
      t.like((await echo(who, 1)).json, { status: 'COMPLETED', output: { n: 1, ms: 0 } });
      const submitted = await call(who, `${ids[who].get('numbers') ?? ''}/run`, { input: { count: 3, ms: 0 } });
      t.is(submitted.status, 200);
      const job = String(submitted.json['id']);
      const chunks: unknown[] = [];
      await until(`the stream of ${who} ends`, async () => {
        const { json } = await call(who, `${ids[who].get('numbers') ?? ''}/stream/${job}`);
        chunks.push(...(json['stream'] as unknown[]));
        return json['status'] === 'COMPLETED';
      });
      t.is(chunks.length, 3);
      t.is((await call(who, `${ids[who].get('numbers') ?? ''}/status/${job}`)).json['status'], 'COMPLETED');
      const large = `{"input":{"n":4,${' '.repeat(100_000)}"ms":0}}`;
      const stored = await call(who, `${ids[who].get('echo') ?? ''}/runsync`, large);
      t.like(stored.json, { status: 'COMPLETED', output: { n: 4, ms: 0 } }, 'an input in the blob store');
      // The other account's key is none here.
      for (const path of [`status/${job}`, 'health', `stream/${job}`])
        t.is((await call(other, `${ids[who].get('numbers') ?? ''}/${path}`)).status, 404, path);
      t.is((await call(other, `${ids[who].get('echo') ?? ''}/run`, { input: { n: 1, ms: 0 } })).status, 404);
    }
    t.is((await fetch(`${url}/metrics?part=scheduler&cell=west`, { headers: { authorization: operator } })).status, 200);
    t.is((await fetch(`${url}/metrics?part=scheduler&cell=north`, { headers: { authorization: operator } })).status, 404);

    // The owner of one cell is lost.
    const gated = echo('west', 2);
    east.process.kill('SIGKILL');
    await once(east.process, 'exit');
    t.is((await gated).status, 200);
    const delayed = echo('east', 3);
    for (let n = 0; n < 50; n++) {
      const { status, json } = await echo('west', n);
      t.is(status, 200);
      t.like(json, { status: 'COMPLETED', output: { n, ms: 0 } });
    }
    t.is((await fetch(`${url}/healthz`)).status, 200);
    await scheduler('east', 'default');
    t.like((await delayed).json, { status: 'COMPLETED', output: { n: 3, ms: 0 } });
  });
}

type Tenant = 'east' | 'west';

interface Answer {
  readonly status: number;
  readonly json: Readonly<Record<string, unknown>>;
}

const keys = { east: '', west: '' };

/** Name → id of the endpoints of the app, once they have workers. */
async function deploy(capstan: (key: string, ...args: string[]) => Promise<string>, key: string): Promise<ReadonlyMap<string, string>> {
  const rows = JSON.parse(await capstan(key, 'deploy', app, '--json', '--no-wait')) as { id: string; name: string }[];
  return new Map(rows.map(({ id, name }) => [name, id]));
}

interface Part {
  readonly process: ChildProcess;
  readonly log: () => string;
}

/** Starts a part as a process of its own, and resolves when it has logged this. */
async function part(t: ExecutionContext, name: string, logged: RegExp, env: Readonly<Record<string, string>>): Promise<Part> {
  const child = spawn(process.execPath, [tool, name], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], CAPSTAN_HTTP_HOST: '127.0.0.1', CAPSTAN_INVOKE_PORT: '0', ...env },
  });
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (text: Buffer) => {
      log += text.toString();
      if (logged.test(log)) resolve();
    });
    child.once('exit', () => reject(new Error(`${name} ended: ${log}`)));
  });
  return { process: child, log: () => log };
}
