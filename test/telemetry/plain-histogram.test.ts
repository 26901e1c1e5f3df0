import test from 'ava';
import { Registry } from 'prom-client';

import { metricsText } from '../../lib/metrics-text.ts';
import { PlainHistogram } from '../../lib/plain-histogram.ts';
import { observeTraced, tracedHistogram } from '../support/traced-histogram.ts';

const spec = { name: 'capstan_seconds', help: 'Some time.', buckets: [0.001, 0.5, 10] };
const VALUES = [0, 0.001, 0.0011, 0.5, 0.7, 10, 11, 1e9];

test('a plain histogram is rendered like one of the library, in both formats', async (t) => {
  const [plain, library] = [new Registry(), new Registry()];
  const histogram = new PlainHistogram(plain, spec);
  const other = tracedHistogram(library, { ...spec, labelNames: ['route'] });
  histogram.series({ route: '/never' });
  for (const route of ['/a', '/"quoted"\n']) {
    const series = histogram.series({ route });
    for (const value of VALUES) {
      series.observe(value);
      other.labels({ route }).observe(value);
    }
  }
  for (const format of ['prometheus', 'openmetrics'] as const)
    t.deepEqual((await metricsText(plain, format)).split('\n').sort(), (await metricsText(library, format)).split('\n').sort());
});

test('the last value of a recorded trace is the exemplar of its bucket', async (t) => {
  const [plain, library] = [new Registry(), new Registry()];
  const series = new PlainHistogram(plain, spec).series({ route: '/a' });
  const other = tracedHistogram(library, { ...spec, labelNames: ['route'] });
  for (const [value, traceId] of [
    [0.0002, 'a'],
    [0.0003, 'b'],
    [0.7, 'c'],
    [99, 'd'],
  ] as const) {
    series.observeTraced(value, traceId);
    observeTraced(other, { labels: { route: '/a' }, value, traceId });
  }
  const withoutTime = (text: string): string[] =>
    text
      .split('\n')
      .map((line) => line.replace(/(# \{.*\} \S+) \S+$/, '$1'))
      .sort();
  t.deepEqual(withoutTime(await metricsText(plain, 'openmetrics')), withoutTime(await metricsText(library, 'openmetrics')));
  t.notRegex(await metricsText(plain, 'prometheus'), /trace_id/);
});
