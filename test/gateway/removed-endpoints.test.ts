/** What the gateway keeps of load-balanced endpoints goes with them: endpoints come and go without end. */
import test from 'ava';
import { Registry } from 'prom-client';

import { Pools, type WorkerHost } from '../../gateway/lb/pools.ts';
import { LbMetrics } from '../../gateway/metrics/lb-metrics.ts';

test('metric series of removed endpoints are dropped with the next new one', async (t) => {
  const registry = new Registry();
  const known = new Set<string>();
  const levels = { endpoints: () => known, level: () => ({ held: 1, inFlight: 2 }), exists: (id: string) => known.has(id) };
  const metrics = new LbMetrics(registry, levels);
  for (let n = 0; n < 50; n++) {
    known.clear();
    known.add(`ep${n}`);
    metrics.answered(`ep${n}`, 200, 5);
    metrics.answered(`ep${n}`, 404, 5);
    metrics.brokeOff(`ep${n}`, 'WORKER_LOST');
    await registry.metrics();
  }
  const text = await registry.metrics();
  t.deepEqual([...new Set([...text.matchAll(/endpoint="([^"]+)"/g)].map(([, id]) => id))], ['ep49']);
  t.true(text.includes('capstan_lb_requests_total{endpoint="ep49",status="404"} 1'));
});

test('pools that hold nothing are dropped with the next new one', (t) => {
  const pools = new Pools<WorkerHost>({
    now: () => 0,
    maxHeld: 10,
    holdMs: 1_000,
    releaseOf: () => 'r1',
    onChange: () => undefined,
  });
  const waiting = {
    waitingSince: undefined,
    alone: false,
    hasKey: true,
    aloneSince: undefined,
    functionName: 'fn',
    placed: () => undefined,
    refused: () => undefined,
  };
  for (let n = 0; n < 50; n++) pools.requestWorker(`ep${n}`, { ...waiting })();
  const leave = pools.requestWorker('busy', { ...waiting });
  for (let n = 50; n < 100; n++) pools.requestWorker(`ep${n}`, { ...waiting })();
  t.deepEqual([...pools.endpoints()], ['busy', 'ep99']);
  t.is(pools.level('busy').held, 1);
  leave();
});
