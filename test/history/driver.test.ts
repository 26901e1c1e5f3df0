/** The driver of faults ends, whatever its faults do. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { FaultDriver } from './faults/driver.ts';
import type { Fault } from './faults/fault.ts';
import { Recorder } from './recorder.ts';
import type { HistoryStack } from './stack/stack.ts';

interface World {
  readonly driver: FaultDriver;
  /** Resolves when this many faults have begun. */
  begun(count: number): Promise<void>;
  records(): Promise<{ kind: string; number?: number }[]>;
}

async function world(t: ExecutionContext, fault: Pick<Fault, 'heal'> & Partial<Fault>): Promise<World> {
  const folder = await folderOf(t);
  // The driver's limits hold no process: in a run the stack does.
  const held = setInterval(() => undefined, 1_000);
  t.teardown(() => clearInterval(held));
  const recorder = new Recorder(folder);
  let count = 0;
  const waiting: { readonly count: number; resolve(): void }[] = [];
  const begin = (): void => {
    count += 1;
    for (const each of waiting) if (count >= each.count) each.resolve();
  };
  const source = (): Fault => ({ target: 'a part', lastsMs: 0, begin, ...fault });
  // These faults hit nothing.
  const stack = {} as HistoryStack;
  const driver = new FaultDriver(stack, recorder, new Map([['kill', source]]), { seed: 1, every: 0.001 });
  return {
    driver,
    begun: (least) =>
      new Promise((resolve) => {
        waiting.push({ count: least, resolve });
      }),
    records: async () => {
      await recorder.close();
      const text = await readFile(join(folder, 'clients.jsonl'), 'utf8');
      return text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { kind: string; number?: number });
    },
  };
}

test('faults that do not heal leave the driver able to stop, and have no end in the history', async (t) => {
  const { driver, begun, records } = await world(t, { heal: () => new Promise<void>(() => undefined) });
  const both = begun(2);
  driver.start();
  await both;
  await driver.stop(10);
  t.deepEqual(
    (await records()).map(({ kind, number }) => [kind, number]),
    [
      ['fault', 1],
      ['fault', 2],
    ],
  );
});

test('faults that heal are over when the driver has stopped', async (t) => {
  const { driver, begun, records } = await world(t, { heal: () => undefined });
  const some = begun(3);
  driver.start();
  await some;
  await driver.stop(60_000);
  const kinds = (await records()).map(({ kind }) => kind);
  t.is(kinds.filter((kind) => kind === 'fault').length, kinds.filter((kind) => kind === 'healed').length);
  t.true(kinds.length >= 6);
});

test('a fault that cannot be made fails the run', async (t) => {
  let failed = (): void => undefined;
  const failure = new Promise<void>((resolve) => {
    failed = resolve;
  });
  const { driver } = await world(t, {
    begin: () => {
      failed();
      throw new Error('iptables is not there');
    },
    heal: () => undefined,
  });
  driver.start();
  await failure;
  await t.throwsAsync(driver.stop(60_000), { message: 'iptables is not there' });
});
