/** What a driver promises of the history of endpoints (scheduler/store/history.ts). */
import test, { type ExecutionContext } from 'ava';

import type { DeviceHistoryRow, DeviceHistoryStore } from '../../../scheduler/store/device-history.ts';
import { HISTORY_STEPS, type HistoryRow, type HistoryStore } from '../../../scheduler/store/history.ts';
import { MAX_REASONS, REASONS_KEPT_MS, type QueueReasonStore } from '../../../scheduler/store/queue-reasons.ts';
import type { Op, Store } from '../../../scheduler/core/ports/store.ts';
import { outcomes, START } from './jobs.ts';
import { take } from './take.ts';

export type WithHistory = Store & {
  readonly history: HistoryStore;
  readonly queueReasons: QueueReasonStore;
  readonly deviceHistory: DeviceHistoryStore;
};

const STEP = 10;
const STEP_MS = STEP * 1000;

export function historyRules(name: string, open: () => Promise<WithHistory>): void {
  const use = async (t: ExecutionContext) => {
    const store = await open();
    t.teardown(() => store.close());
    const fence = await take(store);
    const put = (key: string, version: number, value: string | null): Op => ({ kind: 'put', rowKind: 'endpoint', key, version, value });
    t.deepEqual(await outcomes(store, fence, put('endpoint-a', 1, '{"account":"a"}'), put('endpoint-b', 1, '{"account":"a"}')), [
      'ok',
      'ok',
    ]);
    return { store, fence, put, history: store.history, reasons: store.queueReasons };
  };
  const row = (at: number, value: string, of: Partial<HistoryRow> = {}): HistoryRow => ({
    endpoint: 'endpoint-a',
    step: STEP,
    at,
    value,
    ...of,
  });
  const all = (history: HistoryStore, endpoint = 'endpoint-a', step = STEP) => history.read({ endpoint, step, from: 0, until: START * 2 });

  test.serial(`${name}: history: rows are read in order, within a range, and the last of a place stands`, async (t) => {
    const { history } = await use(t);
    await history.save([
      row(START + STEP_MS, 'second \\ "ä" \u{1F600}'),
      row(START, 'first'),
      row(START, 'of the other', { endpoint: 'endpoint-b' }),
      row(START, 'of a minute', { step: 60 }),
    ]);
    await history.save([row(START, 'first again'), row(START + 2 * STEP_MS, 'third')]);
    await history.save([]);
    t.deepEqual(await all(history), [
      { at: START, value: 'first again' },
      { at: START + STEP_MS, value: 'second \\ "ä" \u{1F600}' },
      { at: START + 2 * STEP_MS, value: 'third' },
    ]);
    t.deepEqual(await history.read({ endpoint: 'endpoint-a', step: STEP, from: START + 1, until: START + 2 * STEP_MS }), [
      { at: START + STEP_MS, value: 'second \\ "ä" \u{1F600}' },
    ]);
    t.deepEqual(await all(history, 'endpoint-b'), [{ at: START, value: 'of the other' }]);
    t.deepEqual(await all(history, 'endpoint-a', 60), [{ at: START, value: 'of a minute' }]);
    t.deepEqual(await all(history, 'endpoint-c'), []);
  });

  test.serial(`${name}: history: a ring, for each step and endpoint by itself`, async (t) => {
    const { history } = await use(t);
    for (const { step, keptMs } of HISTORY_STEPS) {
      await history.save([
        row(START, 'old', { step }),
        row(START + 1, 'edge', { step }),
        row(START, 'old', { step, endpoint: 'endpoint-b' }),
      ]);
      await history.save([row(START + keptMs + 1, 'new', { step })]);
      t.deepEqual(
        (await all(history, 'endpoint-a', step)).map(({ value }) => value),
        ['edge', 'new'],
        `${step} s`,
      );
      t.is((await all(history, 'endpoint-b', step)).length, 1, 'nothing was written of it since');
    }
  });

  test.serial(`${name}: history: goes with its endpoint, and none is written of one that does not exist`, async (t) => {
    const { store, fence, put, history } = await use(t);
    await history.save([row(START, 'a'), row(START, 'b', { endpoint: 'endpoint-b' }), row(START, 'c', { endpoint: 'endpoint-c' })]);
    t.deepEqual(await all(history, 'endpoint-c'), []);
    t.deepEqual(await outcomes(store, fence, put('endpoint-a', 2, null)), ['ok']);
    await history.save([row(START, 'late')]);
    t.deepEqual(await all(history), []);
    t.is((await all(history, 'endpoint-b')).length, 1);
  });

  const reason = (at: number, code: string, endpoint = 'endpoint-a') => ({ endpoint, at, reason: code, detail: `"${code}" ä` });

  test.serial(`${name}: reasons of queues: a range begins with the one that stands at its begin`, async (t) => {
    const { reasons } = await use(t);
    await reasons.save([reason(START, 'NO_CAPACITY'), reason(START + 5, 'PAUSED', 'endpoint-b')]);
    await reasons.save([reason(START + 10, 'IMAGE_PULL')]);
    await reasons.save([reason(START + 20, '')]);
    await reasons.save([reason(START + 20, 'THROTTLED')]);
    await reasons.save([]);
    const codes = async (from: number, until: number, endpoint = 'endpoint-a') =>
      (await reasons.read({ endpoint, from, until })).map(({ at, reason: code }) => [at - START, code]);
    t.deepEqual(await reasons.read({ endpoint: 'endpoint-a', from: START + 12, until: START + 20 }), [
      { at: START + 10, reason: 'IMAGE_PULL', detail: '"IMAGE_PULL" ä' },
    ]);
    t.deepEqual(await codes(START + 9, START + 21), [
      [0, 'NO_CAPACITY'],
      [10, 'IMAGE_PULL'],
      [20, 'THROTTLED'],
    ]);
    t.deepEqual(await codes(START - 5, START), []);
    t.deepEqual(await codes(START - 5, START + 1), [[0, 'NO_CAPACITY']]);
    t.deepEqual(await codes(START, START + 99, 'endpoint-c'), []);
  });

  test.serial(`${name}: reasons of queues: those that stand are the last of each endpoint, unless they are over`, async (t) => {
    const { reasons } = await use(t);
    await reasons.save([reason(START, 'NO_CAPACITY'), reason(START, 'PAUSED', 'endpoint-b'), reason(START, 'PAUSED', 'endpoint-c')]);
    await reasons.save([reason(START + 1, ''), reason(START + 1, 'CRASH_LOOP', 'endpoint-b')]);
    t.deepEqual(await reasons.standing(), [{ endpoint: 'endpoint-b', reason: 'CRASH_LOOP' }]);
  });

  test.serial(`${name}: reasons of queues: bounded by number and age, and gone with their endpoint`, async (t) => {
    const { store, fence, put, reasons } = await use(t);
    const all = (endpoint: string) => reasons.read({ endpoint, from: 0, until: START * 2 });
    await reasons.save([...Array.from({ length: MAX_REASONS }, (_, i) => reason(START + i, `R${i}`)), reason(START, 'B', 'endpoint-b')]);
    t.is((await all('endpoint-a')).length, MAX_REASONS);
    for (let i = MAX_REASONS; i < MAX_REASONS + 3; i++) await reasons.save([reason(START + i, `R${i}`)]);
    const kept = await all('endpoint-a');
    t.deepEqual([kept.length, kept[0]?.at, kept.at(-1)?.at], [MAX_REASONS, START + 3, START + MAX_REASONS + 2]);
    await reasons.save([reason(START + REASONS_KEPT_MS + 10, 'LATE')]);
    t.is((await all('endpoint-a'))[0]?.at, START + 10);
    t.is((await all('endpoint-b')).length, 1);
    t.deepEqual(await outcomes(store, fence, put('endpoint-a', 2, null)), ['ok']);
    await reasons.save([reason(START + 1, 'late')]);
    t.deepEqual(await all('endpoint-a'), []);
    t.is((await all('endpoint-b')).length, 1);
  });

  const deviceRow = (at: number, value: string, of: Partial<DeviceHistoryRow> = {}): DeviceHistoryRow => ({
    node: 'node-a',
    device: 'GPU-a',
    at,
    value,
    ...of,
  });

  test.serial(`${name}: history of devices: rows are read in order, within a range, and the last of a place stands`, async (t) => {
    const store = await open();
    t.teardown(() => store.close());
    const devices = store.deviceHistory;
    await devices.save([
      deviceRow(START + 2, 'second "ä" \u{1F600}'),
      deviceRow(START, 'first'),
      deviceRow(START, 'of the other device', { device: 'GPU-b' }),
      deviceRow(START, 'of the other node', { node: 'node-b' }),
    ]);
    await devices.save([deviceRow(START, 'first again')]);
    await devices.save([]);
    const range = { node: 'node-a', device: 'GPU-a', from: START, until: START + 3 };
    t.deepEqual(await devices.read(range), [
      { at: START, value: 'first again' },
      { at: START + 2, value: 'second "ä" \u{1F600}' },
    ]);
    t.deepEqual(await devices.read({ ...range, from: START + 1, until: START + 2 }), []);
    t.deepEqual(await devices.read({ ...range, device: 'GPU-b' }), [{ at: START, value: 'of the other device' }]);
    t.deepEqual(await devices.read({ ...range, node: 'node-c' }), []);
  });

  test.serial(`${name}: history of devices: what begins before a time is removed, of every node`, async (t) => {
    const store = await open();
    t.teardown(() => store.close());
    const devices = store.deviceHistory;
    await devices.save([deviceRow(START, 'old'), deviceRow(START + 1, 'edge'), deviceRow(START, 'old', { node: 'node-b' })]);
    await devices.expire(START + 1);
    const read = (node: string) => devices.read({ node, device: 'GPU-a', from: 0, until: START * 2 });
    t.deepEqual(
      (await read('node-a')).map(({ value }) => value),
      ['edge'],
    );
    t.deepEqual(await read('node-b'), []);
  });
}
