/** Every bench, at a size of seconds: it ends, without an error, and prints its figures. The figures themselves mean nothing at this size. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { BUDGET_LOADS, type Budget } from '../../bench/budget/measure.ts';
import type { Stage } from '../../bench/budget/stages.ts';
import { startEcho } from '../../bench/echo/reference.ts';
import { isErrno } from '../../lib/to-error.ts';
import { run } from '../cli/fakes/run.ts';
import { browserPath, SKIPPED } from '../console/browser.ts';
import { folderOf } from '../support/folder.ts';
import { missingRegistry } from '../support/registries.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from '../support/postgres.ts';

const root = join(import.meta.dirname, '../..');

interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a bench to its end; one that hangs goes with everything it started. */
async function bench(t: ExecutionContext, path: string, ...args: readonly string[]): Promise<Printed> {
  const running = run([join(root, path), ...args], { cwd: root, detached: true, env: process.env });
  t.teardown(() => {
    try {
      process.kill(-(running.child.pid ?? 0), 'SIGKILL');
    } catch (error) {
      if (!isErrno(error, 'ESRCH')) throw error; // it has ended, as it should
    }
  });
  t.is(await running.ended, 0, running.stderr() + running.stdout());
  return { stdout: running.stdout(), stderr: running.stderr() };
}

const json = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>;

/** Every one is a number that can be. */
function figures(t: ExecutionContext, what: string, ...values: unknown[]): void {
  for (const value of values) t.true(typeof value === 'number' && Number.isFinite(value) && value >= 0, `${what}: ${String(value)}`);
}

const BUDGET_SIZES = ['--windows', '2', '--seconds', '0.5', '--connections', '8'];

/** The budget has a figure for each load, and the stages add up to what the main thread used. */
function checkBudget(t: ExecutionContext, { loads }: Budget, stages: readonly Stage[]): void {
  t.deepEqual(Object.keys(loads), [...BUDGET_LOADS]);
  for (const name of BUDGET_LOADS) {
    const load = loads[name];
    t.is(load.errors, 0, name);
    figures(t, name, load.mainUs, load.mainMedianUs, load.processUs);
    const sum = Object.values(load.stages).reduce((us, cost) => us + cost.us, 0);
    t.true(Math.abs(sum - load.mainUs) < 0.01, `${name}: the stages add up to ${sum} of ${load.mainUs} µs`);
    for (const { us, bytes } of Object.values(load.stages)) figures(t, name, us, bytes);
  }
  for (const stage of stages) {
    const used = BUDGET_LOADS.some((name) => (loads[name].stages[stage]?.us ?? 0) > 0);
    t.true(used, `no sample in the stage ${stage}: its files have moved (bench/budget/stages.ts)`);
  }
}

/** By path below the root: its run at a tiny size, and what it must have printed. */
const benches: Readonly<Record<string, (t: ExecutionContext) => Promise<void>>> = {
  'bench/main.ts': async (t) => {
    const results = await folderOf(t);
    const sizes = ['--rounds', '1', '--seconds', '0.3', '--warmup', '0.1', '--connections', '2', '--start-jobs', '5', '--depths', '50,100'];
    const { stdout, stderr } = await bench(t, 'bench/main.ts', ...sizes, '--results', results, '--json');
    const report = json(stdout) as { errors: number; figures: Record<string, { value: number }> };
    t.is(report.errors, 0, stderr);
    t.deepEqual(Object.keys(report.figures).sort(), ['runConsumed', 'runParked', 'runsync', 'start', 'storeDepth']);
    figures(t, 'main', ...Object.values(report.figures).map(({ value }) => value));
    t.regex(stderr, /│ \/run, no consumer/, 'the table');
    t.is((await readdir(results)).length, 1);
  },
  'bench/console-pages.ts': async (t) => {
    if (browserPath === undefined) {
      t.pass(`not run:${SKIPPED}`);
      console.log(`bench/console-pages.ts${SKIPPED}`);
      return;
    }
    const { stdout } = await bench(t, 'bench/console-pages.ts', '--pages', '11', '--seconds', '2', '--settle', '1');
    const report = json(stdout) as { failures: object; without: Record<string, number>; withPages: Record<string, number> };
    t.deepEqual(report.failures, {});
    figures(t, 'console-pages', report.without['gateway'], report.withPages['gateway']);
  },
  'bench/tracing.ts': async (t) => {
    const sizes = ['--rounds', '1', '--seconds', '0.5', '--warmup', '0.1', '--connections', '4', '--share', '1'];
    const { stdout } = await bench(t, 'bench/tracing.ts', ...sizes);
    const { rate, processorTime, ...report } = json(stdout) as Record<'rate' | 'processorTime', { ratio: number }> &
      Record<string, unknown>;
    t.is(report['errors'], 0);
    figures(t, 'tracing', rate.ratio, processorTime.ratio, report['offPerSecond'], report['onPerSecond'], report['receivedBytes']);
  },
  'bench/backlog.ts': async (t) => {
    const { stdout } = await bench(
      t,
      'bench/backlog.ts',
      '--jobs',
      '20',
      '--bytes',
      '100',
      '--connections',
      '2',
      '--seconds',
      '0.3',
      '--settle',
      '0',
    );
    const report = json(stdout) as { jobs: number; errors: number; restartMs: number; residentMiB: Record<string, number> };
    t.true(report.jobs >= 20);
    t.is(report.errors, 0);
    figures(t, 'backlog', report.restartMs, ...Object.values(report.residentMiB));
  },
  'bench/dead-webhooks.ts': async (t) => {
    const report = json((await bench(t, 'bench/dead-webhooks.ts', '--jobs', '20', '--hosts', '5', '--seconds', '1')).stdout) as {
      webhooks: number;
      errors: number;
      schedulerCores: { mean: number };
    };
    t.true(report.webhooks >= 20);
    t.is(report.errors, 0);
    figures(t, 'dead-webhooks', report.schedulerCores.mean);
  },
  'bench/searches.ts': async (t) => {
    const sizes = ['--jobs', '20', '--searches', '2', '--rate', '10', '--seconds', '0.5', '--rounds', '1'];
    const report = json((await bench(t, 'bench/searches.ts', ...sizes)).stdout) as {
      errors: number;
      rounds: { p99Ratio: number; alone: { p99: number }; beside: { p99: number; searchesPerSecond: number } }[];
      targetP99Ratio: number;
    };
    t.is(report.errors, 0);
    const [{ p99Ratio, alone, beside } = { p99Ratio: NaN, alone: { p99: NaN }, beside: { p99: NaN, searchesPerSecond: NaN } }] =
      report.rounds;
    figures(t, 'searches', p99Ratio, alone.p99, beside.p99, beside.searchesPerSecond);
    const times = `${alone.p99} ms alone, ${beside.p99} ms beside searches`;
    t.log(`p99 of submissions: ${times}: ${p99Ratio} times (the goal at full size: ${report.targetP99Ratio})`);
  },
  'bench/first-day.ts': async (t) => {
    if (missingRegistry.pypi !== null) {
      t.pass(`not run: ${missingRegistry.pypi}`);
      console.log(`bench/first-day.ts skipped: ${missingRegistry.pypi}`);
      return;
    }
    const report = json((await bench(t, 'bench/first-day.ts', '--paths', 'flask', '--warm-only')).stdout);
    t.is(report['answer'], '{"greeting":"Hello, Ada!"}');
    figures(t, 'first-day', report['warmSeconds'], report['redeploySeconds']);
  },
  'bench/fleet.ts': async (t) => {
    const sizes = ['--agents', '3', '--endpoints', '5', '--workers', '2', '--idle', '0.3', '--settle', '0'];
    const report = json((await bench(t, 'bench/fleet.ts', ...sizes, '--json')).stdout) as { placed: number; tick: Record<string, number> };
    t.is(report.placed, 10);
    figures(t, 'fleet', ...Object.values(report.tick));
  },
  'bench/cold-start.ts': async (t) => {
    const { stdout } = await bench(t, 'bench/cold-start.ts', '--rounds', '1', '--only', 'thread');
    t.regex(stdout, /^thread: first of all, with the build fetched: [\d.]+ ms$/m);
    t.regex(stdout, /^thread: p50 [\d.]+ ms \(goal 60 ms\), .*, 1 starts$/m);
  },
  'bench/gateway-hotpath.ts': async (t) => {
    const { stdout, stderr } = await bench(t, 'bench/gateway-hotpath.ts', '1', ...BUDGET_SIZES);
    const report = json(stdout) as { ratio: number; gateway: { rate: number; bad: number }; budget: Budget };
    figures(t, 'gateway-hotpath', report.ratio, report.gateway.rate);
    t.is(report.gateway.bad, 0);
    checkBudget(t, report.budget, ['parse', 'route', 'auth', 'limits', 'encode', 'channel', 'answer']);
    t.regex(stderr, /^\| \*\*main thread\*\* \| \*\*[\d.]+ µs\*\*, \d+ B \|/m);
  },
  'bench/gateway-processes.ts': async (t) => {
    const { stdout } = await bench(t, 'bench/gateway-processes.ts', '0.3', '--rounds', '1', '--processes', '1,2');
    const report = json(stdout) as { figures: { processes: number; ratio: number; micros: number; bad: number }[] };
    t.deepEqual(
      report.figures.map(({ processes, bad }) => [processes, bad]),
      [
        [1, 0],
        [2, 0],
      ],
    );
    for (const { processes, ratio, micros } of report.figures) figures(t, `processes-${processes}`, ratio, micros);
  },
  'bench/scheduler-hotpath.ts': async (t) => {
    const { stdout, stderr } = await bench(t, 'bench/scheduler-hotpath.ts', ...BUDGET_SIZES);
    checkBudget(t, json(stdout) as unknown as Budget, ['channel', 'core', 'store']);
    t.regex(stderr, /^\| core \| [\d.]+ µs, \d+ B \|/m);
  },
  'bench/lb/main.ts': async (t) => {
    const sizes = ['--rounds', '1', '--seconds', '0.3', '--warmup', '0.1', '--connections', '2', '--rate', '20'];
    const report = json((await bench(t, 'bench/lb/main.ts', ...sizes)).stdout) as { ratio: number; errors: number };
    figures(t, 'lb', report.ratio);
    t.is(report.errors, 0);
  },
  'bench/lb/transport.ts': async (t) => {
    const { stdout } = await bench(t, 'bench/lb/transport.ts', '--rounds', '1', '--seconds', '0.3', '--open', '4', '--rate', '20');
    const report = json(stdout) as Record<string, { perSecond: number; p50Ms: number }>;
    for (const way of ['multiplexed', 'stream-per-request']) figures(t, way, report[way]?.perSecond, report[way]?.p50Ms);
  },
  'bench/store/cycles.ts': async (t) => {
    const { stdout } = await bench(t, 'bench/store/cycles.ts', '--depths', '50,100', '--rounds', '1', '--seconds', '0.2');
    const lines = stdout.trim().split('\n').map(json);
    t.deepEqual(
      lines.map((line) => line['bench']),
      ['store-cycles', 'store-cycles', 'store-depth-ratio'],
    );
    figures(t, 'cycles', lines[0]?.['cyclesPerSecond'], lines[2]?.['ratio']);
    const binaries = await postgresBinaries();
    if (binaries === undefined) {
      t.log(`without PostgreSQL: ${NO_POSTGRES}`);
      return;
    }
    const server = await startPostgres(binaries);
    t.teardown(() => server.stop());
    const address = await server.newDatabase();
    const sizes = ['--depths', '50', '--rounds', '1', '--seconds', '0.2', '--postgres', address];
    const peer = join(import.meta.dirname, '../../node_modules/.cache/graphile-worker');
    const hasPeer = existsSync(peer);
    if (!hasPeer) t.log('without graphile-worker, which .ci/prepare installs');
    const all = (await bench(t, 'bench/store/cycles.ts', ...sizes, ...(hasPeer ? ['--peer', peer] : []))).stdout
      .trim()
      .split('\n')
      .map(json);
    t.deepEqual(
      all.map((line) => line['bench']),
      ['store-cycles', 'store-cycles', 'store-driver-ratio', ...(hasPeer ? ['store-peer-ratio'] : [])],
    );
    figures(t, 'PostgreSQL', all[1]?.['cyclesPerSecond'], all[2]?.['ratio']);
    if (hasPeer) figures(t, 'graphile-worker', all[3]?.['cyclesPerSecond'], all[3]?.['ratio']);
  },
  'bench/store/open-reader.ts': async (t) => {
    const binaries = await postgresBinaries();
    if (binaries === undefined) {
      t.pass(`not run: ${NO_POSTGRES}`);
      console.log(`bench/store/open-reader.ts skipped: ${NO_POSTGRES}`);
      return;
    }
    const server = await startPostgres(binaries);
    t.teardown(() => server.stop());
    for (const webhooks of [[], ['--webhooks']]) {
      const sizes = ['--minutes', '0.01', '--window-seconds', '0.3', '--postgres', await server.newDatabase(), ...webhooks];
      const report = json((await bench(t, 'bench/store/open-reader.ts', ...sizes)).stdout);
      figures(t, 'open reader', report['before'], report['last'], ...Object.values(report['p99Ms'] as Record<string, unknown>));
      t.true(Object.values(report['takeOverMs'] as Record<string, unknown>).every((ms) => typeof ms === 'number'));
    }
  },
  'bench/cluster.ts': async (t) => {
    if ((await postgresBinaries()) === undefined) {
      t.pass(`not run: ${NO_POSTGRES}`);
      console.log(`bench/cluster.ts skipped: ${NO_POSTGRES}`);
      return;
    }
    const sizes = [
      '--kills',
      '1',
      '--pauses',
      '0',
      '--handovers',
      '1',
      '--rounds',
      '1',
      '--seconds',
      '0.3',
      '--warmup',
      '0.1',
      '--connections',
      '2',
    ];
    const lines = (await bench(t, 'bench/cluster.ts', ...sizes)).stdout.trim().split('\n').map(json);
    t.deepEqual(
      lines.map((line) => line['loss'] ?? line['bench']),
      ['kill', 'handover', 'run-consumed-driver-ratio'],
    );
    t.is(lines[1]?.['errors'], 0, 'a handover is no error for callers');
    figures(t, 'cluster', lines[2]?.['ratio'], ...lines.slice(0, 2).map((line) => (line['firstJobMs'] as { p50?: unknown }).p50));
  },
  'bench/store/packing.ts': async (t) => {
    const lines = (await bench(t, 'bench/store/packing.ts', '--rounds', '8')).stdout.trim().split('\n').map(json);
    t.deepEqual(
      lines.map((line) => line['kind']),
      ['submit', 'lease', 'finish', 'requeue'],
    );
    for (const line of lines) figures(t, 'packing', line['cloned_us_per_op'], line['packed_us_per_op']);
  },
  'bench/driver/main.ts': async (t) => {
    const echo = await startEcho();
    t.teardown(() => echo.close());
    const { stdout } = await bench(
      t,
      'bench/driver/main.ts',
      echo.url,
      '--body',
      '{"a":1}',
      '--connections',
      '2',
      '--seconds',
      '0.3',
      '--warmup',
      '0.1',
    );
    const report = json(stdout) as { errors: number; perSecond: number };
    t.is(report.errors, 0);
    figures(t, 'driver', report.perSecond);
  },
};

test('every bench is in the list', (t) => {
  // Each says in its head how it is run.
  const runnable = globSync('bench/**/*.ts', { cwd: root }).filter((file) => {
    const head = /^\/\*\*.*?\*\//s.exec(readFileSync(join(root, file), 'utf8'))?.[0] ?? '';
    return head.includes(`node ${file}`) || head.includes('`npm run bench`');
  });
  t.deepEqual(runnable.sort(), Object.keys(benches).sort());
});

for (const [path, check] of Object.entries(benches)) {
  test.serial(`${path} prints its figures`, async (t) => {
    // The whole service is started for some of them, on a machine that may be busy.
    t.timeout(300_000);
    await check(t);
  });
}
