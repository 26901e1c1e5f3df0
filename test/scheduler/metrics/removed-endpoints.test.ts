import test from 'ava';

import type { Write } from '../../../scheduler/core/effects.ts';
import { newState } from '../../../scheduler/core/state.ts';
import type { EndpointRecord } from '../../../scheduler/core/state/endpoints.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { SchedulerMetrics } from '../../../scheduler/metrics/metrics.ts';

/** The end of a job. */
const finish = (endpoint: string): Write => ({
  op: {
    kind: 'finish',
    seq: 1,
    from: 'LEASED',
    token: 1,
    state: 'COMPLETED',
    endedAt: 1,
    deleteAt: 1,
    attempts: 1,
    delayMs: 1,
    executionMs: 1,
    error: null,
    output: null,
    chunks: [],
    firstChunk: 0,
    delivery: null,
  },
  cause: null,
  reserved: null,
  subject: { endpoint, trace: null },
});

test('the series of an endpoint that was removed go with the next new one', async (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  const present = new Set<string>();
  // Only the ids of the endpoints matter to the series of what ended.
  const endpoints = { has: (id: string) => present.has(id), [Symbol.iterator]: () => [][Symbol.iterator](), values: () => [] };
  const metrics = new SchedulerMetrics({
    image: () => ({ ...state, endpoints: endpoints as unknown as Map<string, EndpointRecord> }),
    wall: () => 0,
    channels: () => 0,
    inputCache: () => ({ jobs: 0, bytes: 0 }),
    freeBytes: () => Promise.resolve(null),
    incidents: () => Promise.resolve([]),
    cluster: { cell: 'default', isOwner: () => true, seen: () => null },
    store: null,
  });
  for (let n = 0; n < 50; n++) {
    present.add(`endpoint-${n}`).delete(`endpoint-${n - 1}`);
    metrics.committed([finish(`endpoint-${n}`)], [{ kind: 'ok' }], 1);
  }
  const named = new Set([...(await metrics.text('prometheus')).matchAll(/endpoint="(endpoint-\d+)"/g)].map(([, id]) => id));
  t.deepEqual([...named], ['endpoint-49']);
});
