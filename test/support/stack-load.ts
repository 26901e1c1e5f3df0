/** A stack of processes under a steady load, on which a test does one thing after the other. */
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import type { HistoryStack } from '../history/stack/stack.ts';
import type { Part } from '../history/stack/part.ts';
import { SteadyLoad } from './steady-load.ts';
import { until } from './until.ts';

export function partOf(stack: HistoryStack, name: string): Part {
  const part = stack.parts.get(name);
  if (part === undefined) throw new Error(`no part ${name}`);
  return part;
}

/** Ends a part in order; resolves when its next process is ready. */
export async function restart(stack: HistoryStack, name: string): Promise<void> {
  const part = partOf(stack, name);
  const { pid } = part;
  process.kill(pid ?? 0, 'SIGTERM');
  await until(`the ${name} started again`, () => part.pid !== undefined && part.pid !== pid);
  await part.ready;
}

/** The scheduler that owns the queue, as the database has it. */
export async function ownerOf(stack: HistoryStack): Promise<string> {
  const { cells } = JSON.parse(await stack.capstan('schedulers', '--json')) as { cells: { ownerAddress: string }[] };
  const address = cells[0]?.ownerAddress ?? '';
  for (const name of stack.schedulers) if ((await partOf(stack, name).ready) === address) return name;
  throw new Error(`no scheduler at ${address}`);
}

export function loadOf(t: ExecutionContext, stack: HistoryStack): SteadyLoad {
  const load = new SteadyLoad({
    urls: stack.gateways.map((gateway) => stack.url(gateway)),
    key: stack.apiKey,
    work: stack.endpoints.get('work') ?? '',
    series: stack.endpoints.get('series') ?? '',
    record: join(stack.folder, 'record'),
  });
  t.teardown(() => load.close());
  return load;
}

/** Does something under load and waits until the load goes on as before. */
export async function step(t: ExecutionContext, load: SteadyLoad, name: string, act: () => Promise<void>): Promise<void> {
  await moreAnswers(load);
  load.reset();
  await act();
  await moreAnswers(load);
  t.log(`${name}: longest gap between answers ${Math.round(load.longestGapMs)} ms`);
}

export async function moreAnswers(load: SteadyLoad): Promise<void> {
  const wanted = load.finished.size + 40;
  await until('the load goes on', () => load.finished.size >= wanted);
}

export async function settled(t: ExecutionContext, load: SteadyLoad): Promise<void> {
  await load.close();
  t.deepEqual(load.wrong, []);
  t.deepEqual(
    [...load.acknowledged].filter((id) => !load.finished.has(id)),
    [],
  );
}
