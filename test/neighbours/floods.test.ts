/**
 * What a tenant feels while another account floods the service from outside: its calls stay fast, no session is lost, and the parts
 * grow by little. The attacker has a key of its own account, as any tenant has. How it is judged: feeling.ts; the control is the
 * service under as many ordinary calls.
 */
import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { Agent, request } from 'undici';

import type { Role } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { ATTEMPTS, MAX_GROWTH_BYTES, MAX_MS, mebibytes, p99 } from './feeling.ts';
import { residentOf, watchPeak } from './process-memory.ts';

const app = join(import.meta.dirname, 'flood-app');
const tool = join(import.meta.dirname, '../../cli/main.ts');
/** Measured rounds of calls of a tenant beside an attack, one after another; fewer where they take longer than ROUND_MS. */
const ROUNDS = 100;
const ROUND_MS = 20_000;
/** What an attack may cost a tenant where ordinary calls of as many connections are felt, too: so many times the p99 beside those. */
const TIMES_ORDINARY = 3;
const PARTS: readonly Role[] = ['gateway', 'agent', 'scheduler'];

interface Tenant {
  readonly key: string;
  readonly echo: string;
  readonly chatter: string;
}

let stack: Stack;
let victim: Tenant;
let attacker: Tenant;

test.before(async () => {
  // Both run here on any host: what is tried comes from outside of the workers.
  stack = await Stack.start({ CAPSTAN_ACCOUNT_ISOLATION: 'none' });
  victim = await tenant('victim');
  attacker = await tenant('attacker');
  await chat(victim, 50);
  for (let n = 0; n < 4; n += 1) await chat(attacker, 20_000);
  await until('all lines are stored', async () => (await linesOf(attacker, 'contains=line%2019999')).length >= 4);
  // A service in use: its heaps have the size that everyday calls give them.
  for (let n = 0; n < 150; n += 1) await linesOf(attacker, 'limit=1000').catch(() => pause(100));
  for (let n = 0; n < 50; n += 1) await call(victim, '/graphql', { query: `query q${n} { account { id } endpoints { id name } }` });
});
test.after.always(() => stack?.close());

/** An account with its own key and endpoints. */
async function tenant(name: string): Promise<Tenant> {
  const { key } = JSON.parse(await stack.tool('account', 'create', name, '--workers', '4', '--json')) as { key: string };
  const folder = join(stack.scratch, name);
  await cp(app, folder, { recursive: true });
  const env = { ...stack.variables, SERVICE_API_KEY: key, CAPSTAN_API_KEY: key, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
  const { stdout } = await promisify(execFile)(process.execPath, [tool, 'deploy', folder, '--json', '--no-wait'], {
    cwd: stack.scratch,
    env,
  });
  const ids = new Map((JSON.parse(stdout) as { id: string; name: string }[]).map((row) => [row.name, row.id]));
  return { key, echo: ids.get('echo') ?? '', chatter: ids.get('chatter') ?? '' };
}

interface Sent {
  readonly status: number;
  readonly text: string;
}

async function call({ key }: Pick<Tenant, 'key'>, path: string, body?: object, agent?: Agent): Promise<Sent> {
  const { statusCode, body: reply } = await request(`${stack.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(agent === undefined ? {} : { dispatcher: agent }),
  });
  return { status: statusCode, text: await reply.text() };
}

async function chat(who: Tenant, lines: number): Promise<void> {
  const { text } = await call(who, `/v2/${who.chatter}/runsync`, { input: { lines } });
  if ((JSON.parse(text) as { status: string }).status !== 'COMPLETED') throw new Error(text);
}

async function linesOf(who: Tenant, query: string): Promise<readonly string[]> {
  const { text } = await call(who, `/v2/${who.chatter}/logs?${query}`);
  return text.split('\n').filter((line) => line !== '');
}

/** Keeps `count` loops of an attack going until it is stopped. */
function flood(count: number, once: () => Promise<unknown>): () => Promise<void> {
  const over = new AbortController();
  const loops = Array.from({ length: count }, async () => {
    // What the attacker is told does not matter.
    while (!over.signal.aborted) await once().catch(() => pause(10));
  });
  return async () => {
    over.abort();
    await Promise.all(loops);
  };
}

/** The p99 of each kind of the tenant's calls, each of which must succeed, ms. */
async function measure(t: ExecutionContext, name: string): Promise<ReadonlyMap<string, number>> {
  const agent = new Agent({ connections: 1 });
  const took = new Map<string, number[]>();
  const end = performance.now() + ROUND_MS;
  for (let n = 0; n < ROUNDS && performance.now() < end; n += 1) {
    for (const [kind, path, body] of [
      ['health', `/v2/${victim.echo}/health`, undefined],
      ['run', `/v2/${victim.echo}/runsync`, { input: { n } }],
      ['logs', `/v2/${victim.chatter}/logs?limit=10`, undefined],
    ] as const) {
      const begun = performance.now();
      const { status, text } = await call(victim, path, body, agent);
      took.set(kind, [...(took.get(kind) ?? []), performance.now() - begun]);
      t.is(status, 200, `${kind}: ${text}`);
      if (kind === 'run') t.like(JSON.parse(text), { status: 'COMPLETED', output: { n } });
      if (kind === 'logs') t.is(text.trim().split('\n').length, 10);
    }
  }
  await agent.close();
  const felt = new Map([...took].map(([kind, times]) => [kind, p99(times)]));
  t.log(`${name}: p99 ${[...felt].map(([kind, ms]) => `of ${kind} ${Math.round(ms)} ms`).join(', ')}`);
  return felt;
}

/** What the tenant and the parts feel of an attack by `count` connections: `begin` starts it and returns how to stop it. */
async function feels(t: ExecutionContext, name: string, count: number, begin: () => () => Promise<void>): Promise<void> {
  t.timeout(300_000);
  const pids = PARTS.map((role) => stack.pid(role));
  let slow: string[] = [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const parts = PARTS.map((role) => {
      const pid = stack.pid(role) ?? 0;
      return { role, before: residentOf(pid), peak: watchPeak(pid) };
    });
    const stop = begin();
    const felt = await measure(t, name);
    const grown = parts.map(({ role, before, peak }) => ({ role, bytes: peak() - before }));
    await stop();
    t.log(`${name}: memory ${grown.map(({ role, bytes }) => `of the ${role} +${mebibytes(bytes)} MiB`).join(', ')}`);
    for (const { role, bytes } of grown) t.true(bytes < MAX_GROWTH_BYTES, `${name}: the ${role} grew by ${mebibytes(bytes)} MiB`);
    slow = [...felt].filter(([, ms]) => ms >= MAX_MS).map(([kind]) => kind);
    if (slow.length === 0) break;
    const agent = new Agent({ connections: count });
    const stopControl = flood(count, () => call(attacker, `/v2/${attacker.echo}/health`, undefined, agent));
    const control = await measure(t, 'ordinary calls');
    await stopControl();
    await agent.destroy();
    slow = slow.filter((kind) => (felt.get(kind) ?? Infinity) >= Math.max(MAX_MS, TIMES_ORDINARY * (control.get(kind) ?? 0)));
    if (slow.length === 0) break;
  }
  t.deepEqual(slow, [], `${name}: slow in each of ${ATTEMPTS} attempts`);
  t.deepEqual(
    PARTS.map((role) => stack.pid(role)),
    pids,
    'no part ended',
  );
  t.notRegex(await stack.log(), /node lost|is lost/);
}

test.serial('a flood of log searches', async (t) => {
  const agent = new Agent({ connections: 12 });
  const search = (): Promise<Sent> => call(attacker, `/v2/${attacker.chatter}/logs?pattern=nowhere%24&limit=1000`, undefined, agent);
  await feels(t, 'log searches', 12, () => flood(12, search));
  await agent.destroy();
});

test.serial('a flood of whole log pages', async (t) => {
  const agent = new Agent({ connections: 12 });
  const page = (): Promise<Sent> => call(attacker, `/v2/${attacker.chatter}/logs?limit=1000`, undefined, agent);
  await feels(t, 'log pages', 12, () => flood(12, page));
  await agent.destroy();
});

test.serial('a flood of costly GraphQL documents', async (t) => {
  const agent = new Agent({ connections: 84 });
  const numbered = (count: number, text: (i: number) => string): string => Array.from({ length: count }, (_, i) => text(i)).join(' ');
  let n = 0;
  const ask = (): Promise<Sent> => {
    const fragments = n % 2 === 0 ? 600 : 50;
    const id = n++;
    const query = `query q${id} { account { ${numbered(fragments, (i) => `...f${i}`)} } } ${numbered(fragments, (i) => `fragment f${i} on Account { id }`)}`;
    return call(attacker, '/graphql', { query }, agent);
  };
  await feels(t, 'GraphQL', 84, () => flood(84, ask));
  await agent.destroy();
});

test.serial('a flood of searches for jobs', async (t) => {
  const agent = new Agent({ connections: 20 });
  const query = `{ jobs(endpoint: "${attacker.echo}", filter: { text: "nowhere" }) { jobs { id } } }`;
  await feels(t, 'job searches', 20, () => flood(20, () => call(attacker, '/graphql', { query }, agent)));
  await agent.destroy();
});

test.serial('a flood of connections that send nothing, or a head byte by byte', async (t) => {
  const { hostname, port } = new URL(stack.url);
  const sockets = new Set<Socket>();
  const open = (): void => {
    const socket = connect(Number(port), hostname);
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  };
  await feels(t, 'connections', 50, () => {
    const stop = flood(1, async () => {
      while (sockets.size < 2_000) open();
      for (const socket of sockets) socket.write('X');
      await pause(50);
    });
    return async () => {
      await stop();
      for (const socket of sockets) socket.destroy();
    };
  });
});

test.serial('a flood of requests with wrong keys, each over a connection of its own', async (t) => {
  let n = 0;
  const guess = (): Promise<string> =>
    fetch(`${stack.url}/v2/${victim.echo}/health`, { headers: { authorization: `Bearer cap_${n++}`, connection: 'close' } }).then((reply) =>
      reply.text(),
    );
  await feels(t, 'wrong keys', 50, () => flood(50, guess));
});
