/** Three agents as processes: placement, scaling, deployments under load, and the life of a node, as its operator sees them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { canFindProcesses } from '../support/processes.ts';
import { Fleet } from '../support/fleet.ts';
import { until } from '../support/until.ts';

const serial = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

const GPUS = 2;
let opened: Fleet | null = null;
let endpoints: ReadonlyMap<string, string> = new Map();
let gates = 0;

function fleet(): Fleet {
  if (opened === null) throw new Error('no fleet');
  return opened;
}

function id(name: string): string {
  const found = endpoints.get(name);
  if (found === undefined) throw new Error(`no endpoint ${name}`);
  return found;
}

function gate(): string {
  return join(fleet().stack.scratch, `gate-${++gates}`);
}

/** Submits jobs that take every device, and waits until each is in its handler. */
async function holdAll(open: string, name = 'hold'): Promise<string[]> {
  const { stack } = fleet();
  const jobs = await Promise.all(Array.from({ length: 3 * GPUS }, () => stack.run(id(name), { gate: open })));
  await until('every device is in use', async () => {
    const documents = await Promise.all(jobs.map((job) => stack.status(id(name), job)));
    return documents.every(({ status }) => status === 'IN_PROGRESS');
  });
  return jobs;
}

interface Held {
  readonly devices: string;
  readonly pid: number;
}

test.before(async (t) => {
  t.timeout(120_000);
  if (!canFindProcesses) return;
  opened = await Fleet.start(GPUS, { CAPSTAN_NODE_GRACE_MS: '2000', CAPSTAN_SILENCE_MS: '4000', CAPSTAN_HEARTBEAT_MS: '500' });
  await opened.connected('a');
  await Promise.all([opened.join('b'), opened.join('c', 'skewed')]);
  endpoints = await opened.stack.deploy(join(import.meta.dirname, 'fleet-app'));
});

test.after.always(() => opened?.close());

serial('from zero to every device of three nodes and back to zero; what has no place is throttled', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const open = gate();
  const jobs = await Promise.all(Array.from({ length: 8 }, () => stack.run(id('hold'), { gate: open })));
  const health = await until('every device is in use', async () => {
    const now = await stack.health(id('hold'));
    return now.workers.running === 3 * GPUS ? now : null;
  });
  t.is(health.workers.throttled, 2, 'two more are wanted than there are devices');
  const nodes = await fleet().nodes();
  t.deepEqual(
    nodes.map(({ name, jobs: held }) => `${name} ${held}`).sort(),
    [`a ${GPUS}`, `b ${GPUS}`, `c ${GPUS}`],
    'spread over the nodes',
  );
  const { stdout } = await fleet().tool('endpoints', 'get', 'hold');
  t.regex(stdout, /NO_PLACE .*GPU_BUSY/);
  t.regex(stdout, /REQUEST .*REQUEST_COUNT: \d jobs, 1 per worker/);
  await writeFile(open, '');
  const documents = await Promise.all(jobs.map((job) => stack.ended(id('hold'), job)));
  t.deepEqual(new Set(documents.map(({ status }) => status)), new Set(['COMPLETED']));
  t.is(new Set(documents.map(({ output }) => (output as Held).devices)).size, 3 * GPUS, 'a device each');
  await until('no worker is left', async () => (await fleet().workers()).every((worker) => worker.endpoint !== 'hold'));
});

serial('idle workers of an endpoint end for a job of another one that needs their devices, no more than it needs', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const open = gate();
  const jobs = await holdAll(open, 'warm');
  await writeFile(open, '');
  await Promise.all(jobs.map((job) => stack.ended(id('warm'), job)));
  // Idle for ten minutes more, were it not for this job.
  const { status, output } = await stack.ended(id('pair'), await stack.run(id('pair'), { gate: open }));
  t.is(status, 'COMPLETED');
  t.is((output as Held).devices.split(',').length, 2);
  const workers = (await fleet().workers()).filter(({ endpoint }) => endpoint === 'warm');
  t.is(workers.length, 3 * GPUS - 2);
  t.regex((await fleet().tool('endpoints', 'get', 'warm')).stdout, /DRAIN .*idle: makes room for jobs of endpoint pair/);
  t.regex((await fleet().tool('endpoints', 'get', 'pair')).stdout, /MAKE_ROOM .*2 workers of endpoint warm end to make room/);
  await fleet().tool('endpoints', 'set', 'warm', 'keepIdle=true', 'idleTimeout=1');
  await until('no worker is left', async () => (await fleet().workers()).every(({ endpoint }) => endpoint !== 'warm'));
});

serial('jobs of low priority start no worker, and say that this is why they wait', async (t) => {
  const { stack } = fleet();
  const answer = await stack.call(`/v2/${id('patient')}/run`, {
    method: 'POST',
    body: JSON.stringify({ input: { n: 1 }, policy: { lowPriority: true } }),
  });
  const { id: job } = (await answer.json()) as { id: string };
  // Another endpoint's job that goes all the way says that the scheduler has looked around.
  await stack.ended(id('versioned'), await stack.run(id('versioned'), {}));
  const document = (await stack.status(id('patient'), job)) as { status: string; queueReason?: string };
  t.deepEqual([document.status, document.queueReason], ['IN_QUEUE', 'LOW_PRIORITY']);
  t.false((await fleet().workers()).some(({ endpoint }) => endpoint === 'patient'));
});

serial('a running worker raises the rate limit, a paused endpoint has none', async (t) => {
  const { stack } = fleet();
  await until('the worker is ready', async () => (await stack.health(id('limited'))).workers.ready === 1);
  const open = gate();
  t.teardown(() => writeFile(open, ''));
  const submit = async (name: string): Promise<number> =>
    (await stack.call(`/v2/${id(name)}/run`, { method: 'POST', body: JSON.stringify({ input: { gate: open } }) })).status;
  const statuses = async (name: string, count: number): Promise<number[]> => {
    const all: number[] = [];
    for (let i = 0; i < count; i++) all.push(await submit(name));
    return all;
  };
  t.deepEqual(await statuses('paused', 3), [200, 200, 429]);
  t.is(await submit('limited'), 200);
  await until('the worker runs', async () => (await stack.health(id('limited'))).workers.running === 1);
  t.deepEqual(new Set(await statuses('limited', 9)), new Set([200]), 'one worker lets 20 in, where the base limit is 2');
});

serial('a deployment under load fails no job, and what is submitted after it runs on it', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const outputs: Promise<{ after: number; version: string; status: string }>[] = [];
  let deployed = 1;
  const submitOne = async (): Promise<void> => {
    const after = deployed;
    const job = await stack.run(id('versioned'), {});
    outputs.push(
      stack.ended(id('versioned'), job).then(({ status, output }) => ({ after, status, version: (output as { version: string }).version })),
    );
  };
  const ending = new AbortController();
  const load = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!ending.signal.aborted) await submitOne();
    }),
  );
  for (const version of [2, 3]) {
    await until('jobs run', () => outputs.length > version * 60);
    await fleet().deployChanged(join(import.meta.dirname, 'fleet-app'), (manifest) =>
      manifest.replace('"VERSION": "1"', `"VERSION": "${version}"`),
    );
    deployed = version;
  }
  const before = outputs.length;
  await until('more jobs run', () => outputs.length > before + 60);
  ending.abort();
  await load;
  const all = await Promise.all(outputs);
  t.log(`${all.length} jobs over two deployments`);
  t.deepEqual(
    all.filter(({ status }) => status !== 'COMPLETED'),
    [],
  );
  t.deepEqual(
    all.filter(({ after, version }) => Number(version) < after),
    [],
    'nothing submitted after a deployment ran on older code',
  );
  t.true(all.some(({ version }) => version === '3'));
});

serial('a drained node finishes what it runs and gets nothing new; resumed, it is used again', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const open = gate();
  const jobs = await holdAll(open);
  t.is((await fleet().tool('node', 'drain', 'b')).code, 0);
  const late = await Promise.all([stack.run(id('hold'), { gate: open }), stack.run(id('hold'), { gate: open })]);
  await writeFile(open, '');
  for (const job of [...jobs, ...late]) t.is((await stack.ended(id('hold'), job)).status, 'COMPLETED');
  const drained = await until('the drained node is empty', async () => {
    const node = (await fleet().nodes()).find(({ name }) => name === 'b');
    return node?.workers === 0 ? node : null;
  });
  t.true(drained.draining);
  t.is((await fleet().tool('node', 'resume', 'b')).code, 0);
  const again = gate();
  const more = await Promise.all(Array.from({ length: 3 * GPUS }, () => stack.run(id('hold'), { gate: again })));
  await until('the resumed node works', async () => (await fleet().nodes()).find(({ name }) => name === 'b')?.jobs === GPUS);
  await writeFile(again, '');
  for (const job of more) t.is((await stack.ended(id('hold'), job)).status, 'COMPLETED');
});

serial('the jobs of a lost node run elsewhere after the grace period, and the node that comes back is used again', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const open = gate();
  const jobs = await holdAll(open);
  await fleet().kill('b');
  await until('the lost jobs are queued again', async () => (await stack.health(id('hold'))).jobs.inQueue === GPUS);
  await writeFile(open, '');
  const documents = await Promise.all(jobs.map((job) => stack.ended(id('hold'), job)));
  t.true(documents.every(({ status }) => status === 'COMPLETED'));
  t.is(documents.filter(({ retries }) => retries === 1).length, GPUS, 'only those of the lost node were run again');
  await fleet().join('b');
  t.is((await fleet().nodes()).length, 3, 'it comes back as the node it was');
});

serial('the operator makes join tokens, lists them by id and revokes them', async (t) => {
  const made = await fleet().tool('node', 'token', 'create', '--name', 'rack', '--expires-in', '12h', '--max-uses', '1', '--json');
  const { id: token, joinToken } = JSON.parse(made.stdout) as { id: string; joinToken: string };
  const list = async (): Promise<{ id: string; name: string; maxUses: number | null }[]> =>
    JSON.parse((await fleet().tool('node', 'token', 'list', '--json')).stdout) as { id: string; name: string; maxUses: number | null }[];
  t.like(
    (await list()).find((row) => row.id === token),
    { name: 'rack', maxUses: 1 },
  );
  t.false(JSON.stringify(await list()).includes(joinToken));
  t.is((await fleet().tool('node', 'token', 'revoke', token)).code, 0);
  t.false((await list()).some((row) => row.id === token));
  const mistakes = await Promise.all([
    fleet().tool('node', 'token', 'create', '--expires-in', 'soon'),
    fleet().tool('node', 'drain'),
    fleet().tool('node', 'drain', 'nowhere'),
    fleet().tool('node', 'explode', 'a'),
  ]);
  t.deepEqual(
    mistakes.map(({ code }) => code),
    [2, 2, 66, 2],
  );
});

serial('a second agent with a node’s identity is refused while the first lives', async (t) => {
  t.timeout(60_000);
  await fleet().copyIdentity('b', 'twin');
  const twin = await fleet().agent('twin');
  await until('the twin is refused', async () => (await fleet().log('twin')).includes('another agent already has a session for this node'));
  t.true((await fleet().connected('b')).connected);
  twin.kill('SIGKILL');
});

serial('a removed node ends with a clear word, and its work goes elsewhere', async (t) => {
  t.timeout(90_000);
  const { stack } = fleet();
  const open = gate();
  const jobs = await holdAll(open);
  const refused = await fleet().tool('node', 'remove', 'b');
  t.is(refused.code, 75);
  t.regex(refused.stderr, /b has 2 workers; drain it first/);
  const pid = fleet().pid('b');
  t.is((await fleet().tool('node', 'remove', 'b', '--force')).code, 0);
  await until('its agent has ended', () => !stack.processes().some((found) => found.pid === pid));
  t.regex(await fleet().log('b'), /the node b was removed/);
  await writeFile(open, '');
  for (const job of jobs) t.is((await stack.ended(id('hold'), job)).status, 'COMPLETED');
  t.deepEqual((await fleet().nodes()).map(({ name }) => name).sort(), ['a', 'c']);
});
