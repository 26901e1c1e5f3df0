/** The dashboard's queries, run by a real Prometheus that scrapes a stack under load: each must return data. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';
import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { withPostgres } from '../support/with-postgres.ts';

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

interface Answer {
  readonly status: string;
  readonly data: { readonly result: readonly { readonly value: readonly [number, string] }[] };
}

const root = join(import.meta.dirname, '../..');
const { panels } = JSON.parse(readFileSync(join(root, 'deploy/dashboards/capstan.json'), 'utf8')) as { panels: readonly Panel[] };
/** Four times the interval of the scrapes, as Grafana chooses it. */
const RATE = '4s';

const hasPrometheus = await promisify(execFile)('prometheus', ['--version']).then(
  () => true,
  () => false,
);

if (hasPrometheus) await withPostgres('dashboard', tests);
else
  test('dashboard', (t) => {
    t.log('skipped: there is no prometheus (Debian: prometheus)');
    t.pass();
  });

/** A Prometheus that scrapes the stack every second. */
async function prometheus(t: ExecutionContext, stack: Stack): Promise<string> {
  const folder = await folderOf(t);
  const file = join(folder, 'prometheus.yaml');
  const target = new URL(stack.url).host;
  await writeFile(
    file,
    `global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: capstan\n    static_configs: [{ targets: ['${target}'] }]\n`,
  );
  const address = `127.0.0.1:${await freePort()}`;
  const child = spawn(
    'prometheus',
    [`--config.file=${file}`, `--storage.tsdb.path=${join(folder, 'data')}`, `--web.listen-address=${address}`],
    { stdio: 'ignore' },
  );
  t.teardown(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  await until('Prometheus serves', async () => (await fetch(`http://${address}/-/ready`).catch(() => null))?.ok === true);
  return `http://${address}`;
}

function tests(postgres: PostgresServer): void {
  test('every query of the dashboard returns data', async (t) => {
    const stack = await Stack.start({ CAPSTAN_STORE: await postgres.newDatabase(), CAPSTAN_SCHEDULERS: '2', CAPSTAN_METRICS: 'open' });
    t.teardown(() => stack.close());
    const url = await prometheus(t, stack);
    const ids = await stack.deploy(join(root, 'test/console/app'));
    const page = await balanced(stack);
    const over = new AbortController();
    const names = ['hostile', 'failing', 'words', 'large'];
    const load = async (): Promise<void> => {
      for (let n = 0; !over.signal.aborted; n += 1) {
        // Endpoints join one after the other, so that workers start all the time.
        const id = ids.get(names[Math.min(names.length - 1, Math.trunc(n / 20) % names.length)] ?? '') ?? '';
        await stack.run(id, { text: 'a b' });
        await (await stack.call(page)).arrayBuffer();
        await new Promise((done) => setTimeout(done, 50));
      }
    };
    const loading = load();
    const missing = new Map(panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [expr, title] as const)));
    t.true(missing.size > 25);
    // A rate needs two scrapes with the event between them: what was returned once counts.
    await until(
      'every query has returned data',
      async () => {
        for (const [expr, title] of missing) {
          const query = expr.replaceAll('$__rate_interval', RATE);
          const response = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(query)}`);
          const { status, data } = (await response.json()) as Answer;
          t.is(status, 'success', `${title}: ${expr}`);
          if (data.result.some(({ value: [, value] }) => Number.isFinite(Number(value)))) missing.delete(expr);
        }
        return missing.size === 0;
      },
      90_000,
    ).catch(() => undefined);
    over.abort();
    await loading;
    t.deepEqual([...missing], []);
  });
}

/** The path of the load-balanced endpoint. */
async function balanced(stack: Stack): Promise<string> {
  const response = await stack.call('/graphql', {
    method: 'POST',
    body: JSON.stringify({ query: '{ endpoints { id kind routes { path } } }' }),
  });
  const { data } = (await response.json()) as { data: { endpoints: { id: string; kind: string; routes: { path: string }[] }[] } };
  const found = data.endpoints.find(({ kind }) => kind === 'LOAD_BALANCED');
  return `/lb/${found?.id ?? ''}${found?.routes[0]?.path ?? ''}`;
}
