/** What a driver promises of the history of endpoints (scheduler/store/history.ts). */
import test, { type ExecutionContext } from 'ava';

import { HISTORY_STEPS, type HistoryRow, type HistoryStore } from '../../../scheduler/store/history.ts';
import type { Op, Store } from '../../../scheduler/store/store.ts';
import { outcomes, START } from './jobs.ts';
import { take } from './take.ts';

export type WithHistory = Store & { readonly history: HistoryStore };

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
    return { store, fence, put, history: store.history };
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
}
