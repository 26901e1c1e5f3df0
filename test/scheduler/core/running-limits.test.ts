/** Running workers raise the rate limits of their endpoint, idle ones do not (docs/api-limits.md). */
import test from 'ava';

import { limitOf } from '../../../scheduler/core/jobs/limits.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import type { State } from '../../../scheduler/core/state.ts';
import type { EndpointRecord } from '../../../scheduler/core/state/endpoints.ts';

/** An endpoint whose workers hold these numbers of jobs. */
function limitWith(jobs: readonly number[]): number {
  const workers = new Map(jobs.map((count, at) => [`w${at}`, { attempts: new Set(Array.from({ length: count }, (_, job) => `${job}`)) }]));
  const state = { settings: defaultSettings, workers } as unknown as State;
  const endpoint = { config: { limits: {}, requestsPerWorker: null }, workers: new Set(workers.keys()) } as unknown as EndpointRecord;
  return limitOf(state, endpoint, 'purge-queue').requests;
}

test('an idle worker raises no limit, a running one raises it by its requests', (t) => {
  t.is(limitWith([]), 2);
  t.is(limitWith([0, 0]), 2);
  t.is(limitWith([0, 1]), 100);
  t.is(limitWith([2, 1]), 200);
});
