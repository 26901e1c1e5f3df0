/** Alerts and dashboard ask for metrics that there are, and every alert leads to what to do. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

const root = join(import.meta.dirname, '../..');
const text = (file: string): string => readFileSync(join(root, file), 'utf8');
const rules = text('deploy/prometheus/capstan.rules.yaml');
const run = promisify(execFile);

const hasPromtool = await run('promtool', ['--version']).then(
  () => true,
  () => false,
);

/** Names of series in the page, those of histograms as they are asked for; the page itself is held to what the parts tell. */
const known = new Set(
  [...text('docs/metrics.md').matchAll(/`(capstan_[a-z_]+)`/g)].flatMap(([, name = '']) => [name, `${name}_bucket`, `${name}_count`]),
);

test('every metric that an alert or the dashboard asks for is one of docs/metrics.md', (t) => {
  for (const [file, asked] of [
    ['deploy/prometheus/capstan.rules.yaml', [...rules.matchAll(/\bcapstan_[a-z_]+/g)]],
    ['deploy/dashboards/capstan.json', [...text('deploy/dashboards/capstan.json').matchAll(/\bcapstan_[a-z_]+/g)]],
  ] as const) {
    t.true(asked.length > 10);
    for (const [name] of asked) t.true(known.has(name), `${file}: ${name}`);
  }
});

test('every alert has a summary, a severity, and a heading of the runbook', (t) => {
  const headings = new Set(
    [...text('docs/runbook.md').matchAll(/^## (.*)$/gm)].map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-')),
  );
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  t.true(alerts.length >= 10);
  for (const alert of alerts) {
    const name = alert.split('\n', 1)[0] ?? '';
    t.regex(alert, /severity: (page|ticket) /, name);
    t.regex(alert, /^ {10}summary: \S/m, name);
    const [, anchor = ''] = /^ {10}runbook: docs\/runbook\.md#(\S+)$/m.exec(alert) ?? [];
    t.true(headings.has(anchor), `${name}: docs/runbook.md has no heading #${anchor}`);
  }
});

(hasPromtool ? test : test.skip)(
  `promtool takes the alerts, and they fire for what they name${hasPromtool ? '' : ' (skipped: there is no promtool; Debian: prometheus)'}`,
  async (t) => {
    await run('promtool', ['check', 'rules', join(root, 'deploy/prometheus/capstan.rules.yaml')]);
    await run('promtool', ['test', 'rules', join(root, 'test/deploy/capstan.rules.test.yaml')]);
    t.pass();
  },
);
