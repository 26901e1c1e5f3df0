/** The Helm chart, rendered by the real helm: that of CAPSTAN_TEST_HELM, the one that `.ci/prepare` builds, or that of the PATH. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const chart = join(root, 'deploy/helm');

async function findHelm(): Promise<string> {
  for (const path of [process.env['CAPSTAN_TEST_HELM'] ?? '', join(root, 'node_modules/.cache/helm/helm'), 'helm'])
    if (path !== '' && (await run(path, ['version', '--short']).then(Boolean, () => false))) return path;
  return '';
}

const helm = await findHelm();
const only = helm === '' ? test.skip : test;
const reason = helm === '' ? ' (skipped: there is no helm; .ci/prepare builds one where there is Go)' : '';

/** Documents by kind and name. */
async function rendered(...values: string[]): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await run(helm, [
    'template',
    'c',
    chart,
    '--namespace',
    'gpus',
    '--kube-version',
    '1.31.0',
    ...values.flatMap((each) => ['--set', each]),
  ]);
  const documents = stdout.split(/^---$/m).filter((text) => /^kind: /m.test(text));
  return new Map(
    documents.map((text) => [`${/^kind: (.*)$/m.exec(text)?.[1] ?? ''} ${/^metadata:\n +name: (.*)$/m.exec(text)?.[1] ?? ''}`, text]),
  );
}

const CLUSTER = [
  'scheduler.replicas=3',
  'store.url=postgres://capstan@db.example:5432/capstan',
  's3.endpoint=https://s3.example',
  's3.bucket=capstan',
];

only(`helm finds nothing wrong with the chart${reason}`, async (t) => {
  for (const values of [[], CLUSTER, ['tls.existingSecret=certificates', 'agent.enabled=false', 'networkPolicy.enabled=false']]) {
    const { stdout } = await run(helm, ['lint', '--strict', chart, ...values.flatMap((each) => ['--set', each])]);
    t.regex(stdout, /1 chart\(s\) linted, 0 chart\(s\) failed/);
  }
});

only(`a token for Prometheus reaches gateways only where it is asked for${reason}`, async (t) => {
  t.notRegex((await rendered()).get('Deployment c-gateway') ?? '', /metrics-token|CAPSTAN_METRICS/);
  const gateway = (await rendered('gateway.metricsTokenKey=prometheus')).get('Deployment c-gateway') ?? '';
  t.regex(gateway, /- \{ key: "prometheus", path: metrics-token \}/);
  t.regex(gateway, /name: CAPSTAN_METRICS_TOKEN_FILE, value: \/etc\/capstan\/secrets\/metrics-token/);
});

const rules = readFileSync(join(root, 'deploy/prometheus/capstan.rules.yaml'), 'utf8');
/** What a rule file says, without comments and the indentation of its document. */
const said = (yaml: string): string[] => {
  const lines = yaml.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  const indent = /^ */.exec(lines[0] ?? '')?.[0].length ?? 0;
  return lines.map((line) => line.slice(indent));
};

only(`the PrometheusRule has the alerts of the rule file, only where it is asked for${reason}`, async (t) => {
  t.false([...(await rendered()).keys()].some((each) => each.startsWith('PrometheusRule')));
  const found = (await rendered('prometheusRule.enabled=true', 'prometheusRule.labels.release=kps')).get('PrometheusRule c-gateway') ?? '';
  t.regex(found, /^ {4}release: kps$/m);
  t.deepEqual(said(found.slice(found.indexOf('spec:\n') + 'spec:\n'.length)), said(rules));
});

only(`links of a PrometheusRule lead to the console that the values name${reason}`, async (t) => {
  for (const [values, base] of [
    [['gateway.publicUrl=https://capstan.example/'], 'https://capstan.example'],
    [['gateway.publicUrl=https://capstan.example', 'prometheusRule.consoleUrl=https://inside.example'], 'https://inside.example'],
  ] as const) {
    const found = (await rendered('prometheusRule.enabled=true', ...values)).get('PrometheusRule c-gateway') ?? '';
    const links = [...found.matchAll(/runbook_url: '(.*)'/g)].map(([, link = '']) => link);
    t.true(links.length > 10);
    for (const link of links) t.true(link.startsWith(`${base}/console/docs/`), link);
  }
  await t.throwsAsync(rendered('prometheusRule.enabled=true', "prometheusRule.consoleUrl=https://x'"), { message: /consoleUrl/ });
});

only(`one scheduler on SQLite, a gateway and an agent${reason}`, async (t) => {
  const found = await rendered();
  t.deepEqual(
    [...found.keys()].sort(),
    [
      'DaemonSet c-agent',
      'Deployment c-gateway',
      'NetworkPolicy c-gateway',
      'NetworkPolicy c-scheduler',
      'PodDisruptionBudget c-gateway',
      'PodDisruptionBudget c-scheduler',
      'Service c-gateway',
      'Service c-scheduler',
      'StatefulSet c-scheduler',
    ].sort(),
  );
  const scheduler = found.get('StatefulSet c-scheduler') ?? '';
  t.regex(scheduler, /replicas: 1\b/);
  t.regex(scheduler, /volumeClaimTemplates:/);
  t.notRegex(scheduler, /CAPSTAN_STORE|CAPSTAN_S3|pgpass/);
  for (const part of ['Deployment c-gateway', 'DaemonSet c-agent'])
    t.regex(found.get(part) ?? '', /CAPSTAN_SCHEDULER, value: "c-scheduler:7070"/);
  for (const part of ['StatefulSet c-scheduler', 'Deployment c-gateway', 'DaemonSet c-agent']) {
    const text = found.get(part) ?? '';
    for (const rule of [
      'runAsNonRoot: true',
      'readOnlyRootFilesystem: true',
      'drop: [ALL]',
      'automountServiceAccountToken: false',
      'readinessProbe:',
    ])
      t.true(text.includes(rule), `${part}: ${rule}`);
  }
});

only(`the agent is root with few capabilities only where workers get user ids of their own${reason}`, async (t) => {
  t.regex((await rendered()).get('DaemonSet c-agent') ?? '', /CAPSTAN_ISOLATION, value: none/);
  const agent = (await rendered('agent.isolation=user')).get('DaemonSet c-agent') ?? '';
  for (const rule of [
    'CAPSTAN_ISOLATION, value: user',
    'add: [SETUID, SETGID, SETPCAP, CHOWN, FOWNER, DAC_OVERRIDE, KILL]',
    'allowPrivilegeEscalation: false',
    '{ name: workers, mountPath: /var/lib/capstan-workers }',
    '{ name: run, mountPath: /run/capstan }',
  ])
    t.true(agent.includes(rule), rule);
  await t.throwsAsync(rendered('agent.isolation=sandbox'), { message: /isolation/ });
});

only(`several schedulers need PostgreSQL and S3-compatible storage, and get their secrets by reference${reason}`, async (t) => {
  const scheduler = (await rendered(...CLUSTER)).get('StatefulSet c-scheduler') ?? '';
  t.regex(scheduler, /replicas: 3\b/);
  t.regex(scheduler, /CAPSTAN_STORE, value: "postgres:\/\/capstan@db\.example:5432\/capstan"/);
  t.regex(scheduler, /CAPSTAN_ADVERTISE, value: "\$\(POD_NAME\)\.c-scheduler\.gpus\.svc:7070"/);
  t.regex(scheduler, /name: CAPSTAN_S3_SECRET_ACCESS_KEY\n +valueFrom: \{ secretKeyRef:/);
  await t.throwsAsync(rendered('scheduler.replicas=2'), { message: /scheduler\.replicas: more than one requires store\.url/ });
  await t.throwsAsync(rendered('store.url=postgres://capstan:secret@db/capstan'), { message: /store/ }, 'no password in a value');
});

test('each setting that the chart makes exists', async (t) => {
  const known = await readFile(join(root, 'docs/configuration.md'), 'utf8');
  for (const part of ['scheduler', 'gateway', 'agent', '_helpers']) {
    const text = await readFile(join(chart, `templates/${part}.${part === '_helpers' ? 'tpl' : 'yaml'}`), 'utf8');
    for (const [, name = ''] of text.matchAll(/name: (CAPSTAN_[A-Z0-9_]+)/g)) t.true(known.includes(`\`${name}\``), name);
  }
});

test('the chart has the version of the release', async (t) => {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  const text = await readFile(join(chart, 'Chart.yaml'), 'utf8');
  t.deepEqual([/^version: (.*)$/m.exec(text)?.[1], /^appVersion: (.*)$/m.exec(text)?.[1]], [version, version]);
  t.true((await readFile(join(root, 'deploy/compose/compose.yaml'), 'utf8')).includes(`capstan:${version}}`));
});
