/** Alerts and dashboard ask for metrics that there are, every alert leads to what to do, and every kind of incident has an alert. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { KINDS, RUNBOOKS, type IncidentKind } from '../../scheduler/incidents/incident.ts';

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
    ['deploy/prometheus/capstan.rules.yaml', [...rules.matchAll(/(?<!externalLabels\.)\bcapstan_[a-z_]+/g)]],
    ['deploy/dashboards/capstan.json', [...text('deploy/dashboards/capstan.json').matchAll(/\bcapstan_[a-z_]+/g)]],
  ] as const) {
    t.true(asked.length > 10);
    for (const [name] of asked) t.true(known.has(name), `${file}: ${name}`);
  }
});

/** What a link of an alert begins with: the external label that names the service, and where gateways serve the docs. */
const BASE = '{{ or $externalLabels.capstan_url "http://127.0.0.1:8080" }}/console/docs/';

function headingsOf(page: string): Set<string> {
  return new Set([...text(`docs/${page}`).matchAll(/^## (.*)$/gm)].map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-')));
}

test('every alert has a summary, a severity, and an absolute link to a heading of a page that gateways serve', (t) => {
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  t.true(alerts.length >= 10);
  for (const alert of alerts) {
    const name = alert.split('\n', 1)[0] ?? '';
    t.regex(alert, /severity: (page|ticket|'\{\{ if eq \$labels\.severity "critical" \}\}page\{\{ else \}\}ticket\{\{ end \}\}') /, name);
    t.regex(alert, /^ {10}summary: \S/m, name);
    const [, link = ''] = /^ {10}runbook_url: '(.*)'$/m.exec(alert) ?? [];
    t.true(link.startsWith(BASE), `${name}: ${link}`);
    const [page = '', anchor = ''] = link.slice(BASE.length).split('#');
    t.true(headingsOf(page).has(anchor), `${name}: docs/${page} has no heading #${anchor}`);
  }
});

test('every kind of incident has an alert, which leads to the section that the incident names', (t) => {
  const named: Partial<Record<IncidentKind, string>> = {
    CRASH_LOOP: 'CapstanCrashLoop',
    NODE_DISCONNECTED: 'CapstanNodeAway',
    WEBHOOKS_FAILING: 'CapstanWebhooksExhausted',
  };
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  for (const kind of KINDS) {
    const found = alerts.find((alert) =>
      named[kind] === undefined ? alert.includes(`capstan_incidents{kind="${kind}"}`) : alert.startsWith(`${named[kind]}\n`),
    );
    t.true(found?.includes(`runbook_url: '${BASE}${RUNBOOKS[kind]}'`), kind);
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
