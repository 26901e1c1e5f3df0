/**
 * Two schedulers on PostgreSQL, two gateways and two agents, each a process: whatever ends, pauses or is restarted, callers
 * see a delay and no error, and every acknowledged job comes to its end.
 */
import { join } from 'node:path';
import { cp, readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

import test from 'ava';
import { request } from 'undici';

import { HistoryStack, plainSettings } from '../history/stack/stack.ts';
import { NO_POSTGRES, postgresBinaries } from '../support/postgres-binaries.ts';
import { loadOf, moreAnswers, ownerOf, partOf, restart, settled, step } from '../support/stack-load.ts';
import { until } from '../support/until.ts';

const binaries = await postgresBinaries();
if (binaries === undefined)
  test('take-over', (t) => {
    t.log(`skipped: ${NO_POSTGRES}`);
    t.pass();
  });
else tests(await HistoryStack.start({ ...plainSettings, schedulers: 2, postgres: binaries }, () => undefined));

function tests(stack: HistoryStack): void {
  test.after.always(() => stack.close());

  test.serial('each part is stopped in order and started again under load', async (t) => {
    const load = loadOf(t, stack);
    for (const name of [...stack.parts.keys()]) {
      await step(t, load, `${name} restarted`, () => restart(stack, name));
    }
    await settled(t, load);
  });

  test.serial('the owner is killed, and then its successor', async (t) => {
    const load = loadOf(t, stack);
    for (let turn = 1; turn <= 2; turn += 1) {
      const owner = await ownerOf(stack);
      await step(t, load, `${owner} killed`, async () => {
        await partOf(stack, owner).kill();
        await partOf(stack, owner).ready;
      });
    }
    await settled(t, load);
  });

  test.serial('the owner is paused past its term and woken, while load-balanced requests go on', async (t) => {
    const web = await deployWeb(stack);
    await web();
    const load = loadOf(t, stack);
    const owner = await ownerOf(stack);
    const nodes = await nodesOf(stack);
    const long = await startLong(stack);
    const { pid = 0 } = partOf(stack, owner);
    const takenOver = new AbortController();
    let served = 0;
    const requests = (async () => {
      for (; !takenOver.signal.aborted; served += 1) t.is(await web(), 200);
    })();
    await step(t, load, `${owner} paused`, async () => {
      process.kill(pid, 'SIGSTOP');
      await until('another one owns the queue', async () => (await ownerOf(stack)) !== owner);
      await moreAnswers(load);
      process.kill(pid, 'SIGCONT');
    });
    takenOver.abort();
    await requests;
    t.log(`${served} load-balanced requests meanwhile`);
    t.true(served > 0);
    await settled(t, load);
    t.is(partOf(stack, owner).pid, pid, 'it goes on as a standby');
    t.is(await long.entered(), 1, 'a running job went on, in its first attempt');
    t.deepEqual(await nodesOf(stack), nodes, 'no agent joined anew');
  });

  test.serial('the host of the owner is lost: nothing of it arrives any more, and no connection ends', async (t) => {
    const load = loadOf(t, stack);
    const owner = await ownerOf(stack);
    const links = stack.inner.filter(({ name }) => name.endsWith(`→${owner}`) || name.startsWith(`${owner}→`));
    t.is(links.length, 5, 'two gateways, two agents and the database');
    const { pid = 0 } = partOf(stack, owner);
    await step(t, load, `${owner} lost`, async () => {
      for (const link of links) link.silence();
      // It closes no connection either: the database keeps its lock.
      process.kill(pid, 'SIGSTOP');
      await until('another one owns the queue', async () => (await ownerOf(stack)) !== owner);
      await moreAnswers(load);
    });
    await partOf(stack, owner).kill();
    for (const link of links) link.resume();
    await settled(t, load);
  });
}

/** Ids of the nodes that ever joined. */
async function nodesOf(stack: HistoryStack): Promise<string[]> {
  const nodes = JSON.parse(await stack.capstan('node', 'list', '--json')) as { id: string; connected: boolean }[];
  return nodes.map(({ id, connected }) => `${id} ${connected ? 'connected' : 'away'}`).sort();
}

/** Starts a job that runs for longer than a take-over lasts. */
async function startLong(stack: HistoryStack) {
  const record = join(stack.folder, 'long');
  const base = `${stack.url(stack.gateways[0] ?? '')}/v2/${stack.endpoints.get('work') ?? ''}`;
  const headers = { authorization: `Bearer ${stack.apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ input: { input: 'long', record, ms: 10_000, failing: 0, bytes: 1 } });
  const { id } = (await (await request(`${base}/run`, { method: 'POST', headers, body })).body.json()) as { id: string };
  await until('it runs', async () => (await readFile(record, 'utf8').catch(() => '')).includes('enter'));
  return {
    /** Waits for its end; how often a handler began it. */
    async entered(): Promise<number> {
      await until('it ended', async () => {
        const { status } = (await (await request(`${base}/status/${id}`, { headers })).body.json()) as { status: string };
        return status === 'COMPLETED';
      });
      return (await readFile(record, 'utf8')).split('"enter"').length - 1;
    },
  };
}

/** Deploys a load-balanced endpoint; returns a call of it. */
async function deployWeb(stack: HistoryStack): Promise<() => Promise<number>> {
  const copy = join(stack.folder, 'web');
  await cp(join(import.meta.dirname, '../lb/app'), copy, { recursive: true });
  const rows = JSON.parse(await stack.capstan('deploy', copy, '--json', '--no-wait')) as { id: string; name: string }[];
  const id = rows.find(({ name }) => name === 'web')?.id ?? '';
  const { host } = new URL(stack.url(stack.gateways[0] ?? ''));
  return async () => {
    const reply = await request(`http://${host}/health`, {
      headers: { host: `${id}.lb.localhost`, authorization: `Bearer ${stack.apiKey}` },
    });
    await reply.body.text();
    await pause(20);
    return reply.statusCode;
  };
}
