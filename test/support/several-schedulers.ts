/** Several schedulers on one database. */
import { Writable } from 'node:stream';

import type { ExecutionContext } from 'ava';
import { pino, type Logger } from 'pino';

import type { MasterKeyInfo } from '../../proto/gen/capstan/v1/control.ts';
import { TestScheduler, unary } from './scheduler-client.ts';
import { until } from './until.ts';

/** Starts a scheduler, which ends with the test. It may be a standby. */
export async function openScheduler(t: ExecutionContext, settings: Record<string, unknown>, log?: Logger): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open(settings, log === undefined ? {} : { log });
  t.teardown(() => scheduler.close());
  return scheduler;
}

/** Stops it for good; its data folder stays until the test ends. */
export async function stop(scheduler: TestScheduler): Promise<void> {
  const { handle } = scheduler;
  scheduler.handle = { ...handle, close: () => Promise.resolve() };
  await handle.close();
}

/** Resolves once the scheduler owns the queue. */
export async function serving(scheduler: TestScheduler): Promise<TestScheduler> {
  const ask = (): Promise<MasterKeyInfo> =>
    unary((done) => scheduler.control.getMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));
  await until('it serves', () =>
    ask().then(
      () => true,
      () => false,
    ),
  );
  return scheduler;
}

/** A log whose lines can be waited for. */
export function lines() {
  const waiting: (() => void)[] = [];
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      for (const wake of waiting.splice(0)) wake();
      done();
    },
  });
  return {
    log: pino(stream),
    text: () => text,
    async until(part: string): Promise<void> {
      while (!text.includes(part)) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}
