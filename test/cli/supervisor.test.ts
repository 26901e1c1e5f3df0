/** The supervisor with small parts in the place of the real ones: processes, restarts, order, log files. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { Notice } from '../../supervisor/log-line.ts';
import { supervise, type PartPlan, type Supervisor } from '../../supervisor/supervisor.ts';
import { shared } from './fakes/run.ts';
import { ownFolder } from '../support/own-folder.ts';

const fake = join(import.meta.dirname, 'fakes/part.ts');
const order = ['gateway', 'agent', 'scheduler'];

interface World {
  readonly supervisor: Supervisor;
  readonly logs: string;
  /** Every notice, in order. */
  readonly heard: Notice[];
  /** The next notice that matches, past ones included. */
  hear(pattern: RegExp): Promise<string>;
}

async function world(t: ExecutionContext, behaviours: Readonly<Record<string, string>>, graceMs = 60_000): Promise<World> {
  const logs = await ownFolder('capstan-supervisor');
  const heard: Notice[] = [];
  const waiting = new Set<() => void>();
  const notice = (found: Notice): void => {
    heard.push(found);
    for (const wake of waiting) wake();
  };
  const parts = ['scheduler', 'gateway', 'agent'].map((name): PartPlan => ({
    name,
    needs: name === 'scheduler' ? [] : ['scheduler'],
    graceMs,
    command: () => ({ args: [fake, behaviours[name] ?? 'serve'], env: shared }),
  }));
  const supervisor = supervise({
    parts,
    stopOrder: order,
    logs,
    notice,
    logged: (part, { level, text }) => notice({ level, text: `${part}: ${text}` }),
  });
  t.teardown(async () => {
    supervisor.stop();
    supervisor.stop();
    await supervisor.finished;
    await rm(logs, { recursive: true, force: true });
  });
  return {
    supervisor,
    logs,
    heard,
    hear: (pattern) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = heard.find(({ text }) => pattern.test(text));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found.text);
        };
        waiting.add(look);
        look();
      }),
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('all parts become ready, with the addresses they say, and end in order', async (t) => {
  const { supervisor } = await world(t, {});
  const addresses = await supervisor.ready;
  t.deepEqual([...addresses.keys()].sort(), ['agent', 'gateway', 'scheduler']);
  const pids = [...supervisor.pids().values()];
  t.is(pids.length, 3);
  supervisor.stop();
  t.is(await supervisor.finished, null);
  t.deepEqual(pids.filter(isAlive), []);
});

for (const victim of ['scheduler', 'gateway', 'agent']) {
  test(`the ${victim} killed with SIGKILL is running again; the others are left alone`, async (t) => {
    const { supervisor, hear } = await world(t, {});
    await supervisor.ready;
    const before = new Map(supervisor.pids());
    process.kill(before.get(victim) ?? 0, 'SIGKILL');
    t.regex(await hear(/ended/), new RegExp(`^the ${victim} ended \\(SIGKILL\\); restarting it in 100 ms$`));
    await hear(/is running again/);
    for (const [part, pid] of supervisor.pids()) t.is(part === victim, pid !== before.get(part), part);
  });
}

test('a part that refuses its first start ends all, with its reason', async (t) => {
  const { supervisor } = await world(t, { gateway: 'refuse' });
  t.deepEqual(await supervisor.finished, { code: 'ADDRESS_IN_USE', message: '127.0.0.1:8080 is in use by another program' });
  t.is(supervisor.pids().size, 0);
});

test('a part that crashes at its first starts is given up; its last words are in its log', async (t) => {
  const { supervisor, logs } = await world(t, { scheduler: 'crash' });
  t.deepEqual(await supervisor.finished, { code: 'INTERNAL', message: 'the scheduler ended before it was ready (exit code 1)' });
  t.is(await readFile(join(logs, 'scheduler.log'), 'utf8'), 'no such luck\n'.repeat(3));
});

test('an agent whose node was removed is not started again; the others go on, and the end is in order', async (t) => {
  const { supervisor, hear, heard } = await world(t, { agent: 'removed' });
  await supervisor.ready;
  await hear(/^the agent ended \(the node vm was removed\) and is not restarted\. To let this host join again, /);
  t.deepEqual([...supervisor.pids().keys()].sort(), ['gateway', 'scheduler']);
  supervisor.stop();
  t.is(await supervisor.finished, null);
  t.is(heard.length, 1);
});

test('a part that does not end is killed when its time is over', async (t) => {
  const { supervisor, hear } = await world(t, { agent: 'stubborn' }, 50);
  await supervisor.ready;
  supervisor.stop();
  await hear(/the agent did not stop within/);
  t.is(await supervisor.finished, null);
});

test('a second stop kills at once', async (t) => {
  const { supervisor } = await world(t, { gateway: 'stubborn' });
  await supervisor.ready;
  const pids = [...supervisor.pids().values()];
  supervisor.stop();
  supervisor.stop();
  t.is(await supervisor.finished, null);
  t.deepEqual(pids.filter(isAlive), []);
});

test('log lines go to the part’s file, warnings and errors to the terminal too', async (t) => {
  const { supervisor, logs, heard } = await world(t, { agent: 'log' });
  await supervisor.ready;
  supervisor.stop();
  await supervisor.finished;
  t.deepEqual(heard, [
    { level: 'warn', text: 'agent: line of 40: a cause' },
    { level: 'error', text: 'agent: line of 50: a cause' },
  ]);
  const lines = (await readFile(join(logs, 'agent.log'), 'utf8')).trim().split('\n');
  t.deepEqual(
    lines.map((line) => (JSON.parse(line) as { level: number }).level),
    [30, 40, 50],
  );
});
