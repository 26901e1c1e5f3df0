/** Metrics in both formats. */
import test from 'ava';
import { Counter, Gauge, Registry } from 'prom-client';

import { joinMetrics, metricsText } from '../../lib/metrics-text.ts';
import { observeTraced, tracedHistogram } from '../support/traced-histogram.ts';

function filled(): Registry {
  const registry = new Registry();
  new Counter({ name: 'jobs_total', help: 'Jobs.', labelNames: ['state'], registers: [registry] }).inc({ state: 'done' }, 2);
  new Gauge({ name: 'level', help: 'Level.', registers: [registry] }).set(3);
  const seconds = tracedHistogram(registry, { name: 'seconds', help: 'Time.', labelNames: ['route'], buckets: [1, 2] });
  seconds.labels({ route: '/a' }).observe(0.5);
  observeTraced(seconds, { labels: { route: '/a' }, value: 1.5, traceId: 'abc' });
  return registry;
}

test('the Prometheus format has no exemplars', async (t) => {
  const text = await metricsText(filled(), 'prometheus');
  t.regex(text, /^jobs_total\{state="done"\} 2$/m);
  t.regex(text, /^seconds_count\{route="\/a"\} 2$/m);
  t.notRegex(text, /#.*trace_id|EOF/);
});

test('OpenMetrics has them, and names its counters by its rule; the other format is as before afterwards', async (t) => {
  const registry = filled();
  const before = await metricsText(registry, 'prometheus');
  const [open, , again] = await Promise.all([
    metricsText(registry, 'openmetrics'),
    metricsText(registry, 'prometheus'),
    metricsText(registry, 'openmetrics'),
  ]);
  t.is(open, again);
  t.regex(open, /^# TYPE jobs counter$/m);
  t.regex(open, /^jobs_total\{state="done"\} 2$/m);
  t.regex(open, /^seconds_bucket\{le="2",route="\/a"\} 2 # \{trace_id="abc"\} 1\.5 [\d.]+$/m);
  t.regex(open, /\n# EOF\n$/);
  t.is(await metricsText(registry, 'prometheus'), before);
});

test('documents of one format are joined with one end mark', (t) => {
  t.is(joinMetrics(['a 1\n# EOF\n', '', 'b 2\n\n# EOF\n'], 'openmetrics').match(/# EOF/g)?.length, 1);
  t.regex(joinMetrics(['a 1\n# EOF\n', 'b 2\n# EOF\n'], 'openmetrics'), /^a 1\nb 2\n# EOF\n$/);
  t.is(joinMetrics(['up 1\n\na 1\n# EOF\n'], 'openmetrics'), 'up 1\na 1\n# EOF\n', 'no empty lines: Prometheus refuses them');
  t.is(joinMetrics(['a 1\n', '', 'b 2\n'], 'prometheus'), 'a 1\n\nb 2\n');
  t.is(joinMetrics([], 'openmetrics'), '# EOF\n');
});
