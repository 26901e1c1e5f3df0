/** What the scheduler tells of its queue, through the gateway of a whole stack. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const app = join(import.meta.dirname, '../contract/app');

const start = sharedStack(test, { CAPSTAN_WEBHOOK_ALLOW_PRIVATE: 'true' });

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

async function scrape(stack: Stack): Promise<{ readonly text: string; readonly samples: readonly Sample[] }> {
  const response = await stack.call('/metrics');
  const text = await response.text();
  const samples = [...text.matchAll(/^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name = '', labels = '', value]) => ({
    name,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, text]) => [key, text])) as Record<string, string>,
    value: Number(value),
  }));
  return { text, samples };
}

test('the queue, its jobs, attempts, workers and commits', async (t) => {
  const stack = await start();
  const endpoints = await stack.deploy(app);
  const id = (name: string): string => endpoints.get(name) ?? '';
  for (let n = 0; n < 3; n += 1) await stack.ended(id('echo'), await stack.run(id('echo'), { n }));
  await stack.ended(id('failing'), await stack.run(id('failing'), {}));
  const cancelled = await stack.run(id('parked'), {});
  await stack.call(`/v2/${id('parked')}/cancel/${cancelled}`, { method: 'POST' });
  await stack.run(id('parked'), {});
  await stack.call(`/v2/${id('parked')}/run`, { method: 'POST', body: '{"input":{},"policy":{"lowPriority":true}}' });

  const { text, samples } = await scrape(stack);
  const value = (name: string, labels: Record<string, string>): number | undefined =>
    samples.find((sample) => sample.name === name && Object.entries(labels).every(([key, wanted]) => sample.labels[key] === wanted))?.value;
  const echo = { endpoint: id('echo') };
  const failing = { endpoint: id('failing') };
  const parked = { endpoint: id('parked') };

  t.is(value('capstan_scheduler_up', {}), 1);
  t.is(value('capstan_endpoint_info', { ...echo, name: 'echo', environment: 'default', kind: 'queue' }), 1);
  t.is(value('capstan_jobs_submitted_total', echo), 3);
  t.is(value('capstan_jobs_finished_total', { ...echo, state: 'COMPLETED' }), 3);
  t.is(value('capstan_jobs_finished_total', { ...failing, state: 'FAILED' }), 1);
  t.is(value('capstan_jobs_finished_total', { ...parked, state: 'CANCELLED' }), 1);
  t.is(value('capstan_job_delay_seconds_count', echo), 3);
  t.is(value('capstan_job_execution_seconds_count', echo), 3);
  t.is(value('capstan_job_delay_seconds_count', parked), undefined, 'none has started');
  t.is(value('capstan_attempts_started_total', echo), 3);
  t.is(value('capstan_attempts_lost_total', echo), 0);
  t.is(value('capstan_queue_jobs', { ...parked, priority: 'normal' }), 1);
  t.is(value('capstan_queue_jobs', { ...parked, priority: 'low' }), 1);
  t.true((value('capstan_queue_oldest_job_age_seconds', parked) ?? 0) > 0);
  t.is(value('capstan_jobs_in_progress', echo), 0);
  t.is(value('capstan_nodes', { connected: 'true' }), 1);
  t.is(value('capstan_gateways_connected', {}), 1);
  t.is(value('capstan_devices', { health: 'unhealthy' }), 0);
  t.is(value('capstan_endpoint_crash_loop', echo), 0);
  t.true((value('capstan_data_folder_free_bytes', {}) ?? 0) > 0);
  t.true((value('capstan_store_commit_duration_seconds_count', {}) ?? 0) > 0);
  t.true((value('capstan_store_commit_operations_sum', {}) ?? 0) >= 8);
  await until('the worker of echo is idle', async () => {
    const idle = (await scrape(stack)).samples.find(
      ({ name, labels }) => name === 'capstan_workers' && labels['endpoint'] === id('echo') && labels['state'] === 'idle',
    );
    return idle?.value === 1;
  });

  // Names: each once over both parts, counters end in _total, all of them in docs/metrics.md.
  const docs = readFileSync(join(import.meta.dirname, '../../docs/metrics.md'), 'utf8');
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => ({ name, type }));
  t.is(new Set(types.map(({ name }) => name)).size, types.length);
  for (const { name, type } of types) {
    t.is(name.endsWith('_total'), type === 'counter', name);
    if (/^capstan_(gateway|scheduler)_(process|nodejs)_/.test(name)) continue;
    t.true(docs.includes(`\`${name}\``), `docs/metrics.md lacks ${name}`);
  }
});
