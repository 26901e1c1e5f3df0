/** What is recorded of endpoints, and read again (scheduler/history/). */
import test from 'ava';

import type { State } from '../../../scheduler/core/state.ts';
import { classOf } from '../../../lib/duration-classes.ts';
import { decode, emptyBucket, encode, percentile, type Bucket } from '../../../scheduler/history/bucket.ts';
import { addRoute, addRoutes, MAX_ROUTES, OTHER_ROUTES, routeAt, type Routes } from '../../../scheduler/history/routes.ts';
import { HistoryRecorder } from '../../../scheduler/history/recorder.ts';
import { chosenStep, readSeries } from '../../../scheduler/history/series.ts';
import type { HistoryRow, HistoryStore } from '../../../scheduler/store/history.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from '../core/fleet-world.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The begin of an hour. */
const START = 1_800_000_000_000 - (1_800_000_000_000 % HOUR);

class MemoryStore implements HistoryStore {
  readonly rows = new Map<string, HistoryRow>();
  writes: HistoryRow[] = [];
  failure: Error | null = null;

  async save(rows: readonly HistoryRow[]): Promise<void> {
    if (this.failure !== null) throw this.failure;
    this.writes.push(...rows);
    for (const row of rows) this.rows.set(`${row.endpoint} ${row.step} ${row.at}`, row);
  }

  async read({ endpoint, step, from, until }: Parameters<HistoryStore['read']>[0]) {
    return [...this.rows.values()]
      .filter((row) => row.endpoint === endpoint && row.step === step && row.at >= from && row.at < until)
      .toSorted((a, b) => a.at - b.at);
  }
}

function open(input = queueInput('echo')) {
  const world = new FleetWorld();
  const [endpoint = ''] = world.deploy(input);
  const store = new MemoryStore();
  const warnings: string[] = [];
  let now = START;
  let image: State | null = world.image;
  const log = { warn: (_fields: object, message: string) => void warnings.push(message) };
  const recorder = new HistoryRecorder({ image: () => image, wall: () => now, store, log });
  /** A job that ended. */
  const end = (state: 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT', executionMs: number | null = 100): void => {
    const op = { kind: 'finish', state, delayMs: 10, executionMs };
    recorder.committed([{ op, subject: { endpoint, trace: null } } as never], [{ kind: 'ok' }]);
  };
  /** Goes on by steps of 10 s, with a sample at the end of each. */
  const pass = async (steps = 1): Promise<void> => {
    for (let i = 0; i < steps; i += 1) {
      now += 10_000;
      recorder.sample();
    }
    await new Promise((done) => setImmediate(done));
  };
  const series = (step: number, from = START, to = now) => readSeries(store, { endpoint, from, to, step, byRoute: true }, now + 3_000);
  return {
    world,
    endpoint,
    store,
    warnings,
    recorder,
    end,
    pass,
    series,
    now: () => now,
    skip: (ms: number) => (now += ms),
    lose: (state: State | null) => (image = state),
    takeOver: () => (image = { ...world.image }),
    other: () => new HistoryRecorder({ image: () => image, wall: () => now, store, log }),
  };
}

const counts = (buckets: readonly Bucket[], name: keyof Bucket['counts']): number[] => buckets.map((bucket) => bucket.counts[name]);
const mean = (buckets: readonly Bucket[], name: keyof Bucket['levels']): number[] =>
  buckets.map(({ levels, samples }) => levels[name] / Math.max(1, samples));

test('what happens in a step is in it, and minutes and hours add up', async (t) => {
  const { world, endpoint, end, pass, series, recorder } = open();
  await pass(1);
  end('COMPLETED', 100);
  end('FAILED', 200);
  world.submit(endpoint);
  recorder.workerStarted({ endpoint, placedMs: 1.4, artifactMs: 2, startedMs: 30, loadedMs: 4 });
  await pass(1);
  end('CANCELLED', null);
  end('TIMED_OUT');
  await pass(10);
  const fine = (await series(10)).buckets;
  t.is(fine.length, 12);
  t.deepEqual(counts(fine, 'completed'), [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  t.deepEqual(counts(fine, 'submitted').slice(0, 3), [0, 1, 0]);
  t.deepEqual([counts(fine, 'cancelled')[2], counts(fine, 'timedOut')[2]], [1, 1]);
  t.deepEqual(mean(fine, 'inQueue'), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
  t.deepEqual(fine[1]?.workerStarts, { total: 1, placed: 1, artifact: 2, started: 30, loaded: 4 });
  const minutes = (await series(60)).buckets;
  t.deepEqual(counts(minutes, 'failed'), [1, 0]);
  t.deepEqual(
    mean(minutes, 'inQueue').map((value) => Math.round(value * 100) / 100),
    [0.83, 1],
  );
  t.is(minutes[0]?.longestQueue, 1);
  const [hour, ...others] = (await series(3_600)).buckets;
  t.is(others.length, 0);
  t.deepEqual(hour?.counts, { submitted: 1, completed: 1, failed: 1, cancelled: 1, timedOut: 1, expired: 0, lost: 0, refused: 0 });
  t.true(Math.abs((percentile(hour?.execution ?? new Map(), 0.5) ?? 0) - 100) < 10);
  t.deepEqual(counts((await series(300)).buckets, 'completed'), [1], 'a multiple of a minute');
});

test('only what changed is written, and what stands is read', async (t) => {
  const { world, endpoint, pass, series, store } = open();
  await pass(6);
  const first = store.writes.length;
  t.is(first, 3, 'a first row of each length');
  await pass(360);
  t.is(store.writes.length, first, 'an idle endpoint writes nothing');
  world.submit(endpoint);
  await pass(1);
  store.writes = [];
  await pass(359);
  const written = store.writes.filter(({ step }) => step === 10).length;
  t.true(written >= 5 && written <= 6, `${written} rows of 10 s within an hour`);
  const { buckets } = await series(10, START + 3_660_000);
  t.deepEqual(new Set(mean(buckets, 'inQueue')), new Set([1]), 'the level stands in all 360 steps');
});

test('what happens is in the step of its time, however late the timer is', async (t) => {
  const { end, pass, series, recorder, skip, world, endpoint } = open();
  await pass(1);
  for (const late of [0, 1, 3, 0, 250, 9_000, 2]) {
    skip(5_000);
    for (let i = 0; i < 4; i += 1) end('COMPLETED');
    world.submit(endpoint);
    skip(5_000 + late);
    recorder.sample();
    skip(-late);
  }
  await new Promise((done) => setImmediate(done));
  t.deepEqual(counts((await series(10)).buckets, 'completed'), [0, 4, 4, 4, 4, 4, 4, 4]);
  t.deepEqual(counts((await series(10)).buckets, 'submitted'), [0, 1, 1, 1, 1, 1, 1, 1]);

  // No timer at all: the first event of a step ends the one before.
  for (let i = 0; i < 3; i += 1) {
    skip(10_000);
    recorder.advance();
    world.submit(endpoint);
    end('COMPLETED');
  }
  skip(10_000);
  recorder.sample();
  await new Promise((done) => setImmediate(done));
  t.deepEqual(counts((await series(10)).buckets, 'completed').slice(8), [0, 1, 1, 1]);
  t.deepEqual(counts((await series(10)).buckets, 'submitted').slice(8), [0, 1, 1, 1]);
});

test('the steps that go on are told apart from those that have ended', async (t) => {
  const { end, pass, series } = open();
  await pass(6);
  end('COMPLETED');
  await pass(1);
  t.like(await series(10), { open: 0 });
  const pairs = await series(20);
  t.deepEqual(counts(pairs.buckets, 'completed'), [0, 0, 0, 1]);
  t.is(pairs.open, 1);
  t.is((await series(3_600)).open, 1);
  await pass(1);
  t.is((await series(20)).open, 0);
});

test('a scheduler that starts within a step adds to it, and one that lost its state begins anew', async (t) => {
  const { end, pass, series, recorder, other, endpoint, skip, takeOver, now } = open();
  await pass(2);
  end('COMPLETED');
  skip(3_000);
  await recorder.close();
  const next = other();
  skip(1_000);
  const op = { kind: 'finish', state: 'COMPLETED', delayMs: 1, executionMs: 1 };
  next.sample();
  skip(1_000);
  next.committed([{ op, subject: { endpoint, trace: null } } as never], [{ kind: 'ok' }]);
  skip(5_000);
  next.sample();
  skip(30_000);
  next.sample();
  t.is(now() % MINUTE, 0);
  await new Promise((done) => setImmediate(done));
  t.deepEqual(counts((await series(60)).buckets, 'completed'), [2]);
  t.deepEqual(counts((await series(10)).buckets, 'completed').slice(0, 4), [0, 0, 2, 0]);
  takeOver();
  next.committed([{ op, subject: { endpoint, trace: null } } as never], [{ kind: 'ok' }]);
  skip(10_000);
  next.sample(true);
  await new Promise((done) => setImmediate(done));
  t.deepEqual(counts((await series(3_600)).buckets, 'completed'), [3]);
});

test('without a state nothing is written; a store that fails is told of once and loses plots alone', async (t) => {
  const { end, pass, lose, store, warnings, world } = open();
  lose(null);
  end('COMPLETED');
  await pass(6);
  t.deepEqual(store.writes, []);
  lose(world.image);
  store.failure = new Error('disk full');
  await pass(3);
  end('COMPLETED');
  await pass(1);
  t.deepEqual(warnings, ['the history of endpoints is not written']);
  store.failure = null;
  end('COMPLETED');
  await pass(1);
  t.true(store.writes.length > 0);
});

test('endpoints that are gone are forgotten, and an account has a bounded number', async (t) => {
  const { world, pass, store, endpoint } = open();
  for (let i = 0; i < 205; i += 1) world.deploy(queueInput(`more-${i}`, { workersMax: 0 }));
  await pass(1);
  t.is(new Set(store.writes.map((row) => row.endpoint)).size, 200);
  world.image.endpoints.delete(endpoint);
  store.writes = [];
  await pass(30);
  t.false(store.writes.some((row) => row.endpoint === endpoint));
});

test('ranges: a step that suits them, and refusals that name the field', async (t) => {
  t.is(chosenStep(START, START + HOUR, START + HOUR), 10);
  t.is(chosenStep(START, START + 3 * HOUR, START + 3 * HOUR), 60);
  t.is(chosenStep(START, START + HOUR, START + 5 * HOUR), 60, 'steps of 10 s are gone by then');
  t.is(chosenStep(START, START + 24 * HOUR, START + 24 * HOUR), 300);
  t.is(chosenStep(START, START + 7 * 24 * HOUR, START + 7 * 24 * HOUR), 3_600);
  t.is(chosenStep(START - 5_000, START + 90 * 24 * HOUR, START + 90 * 24 * HOUR), 21_600, 'from a clock that is late');
  const { series, pass } = open();
  await pass(1);
  await t.throwsAsync(series(7), { code: 'INVALID_ARGUMENT', message: /^step: must be a multiple of 10 s/ });
  await t.throwsAsync(series(10, START + HOUR, START), { code: 'INVALID_ARGUMENT', message: /^to: must be after from/ });
  await t.throwsAsync(series(10, START - 24 * HOUR), { code: 'INVALID_ARGUMENT', message: /^step: the range has more than 2200 steps/ });
  t.deepEqual((await series(10, START + HOUR, START + 2 * HOUR)).buckets, [], 'what has not happened yet');
});

test('a bucket survives its text; a text of a later version is read', (t) => {
  const bucket = emptyBucket();
  t.is(encode(bucket), '{"samples":0}');
  bucket.counts.lost = 2;
  bucket.levels.idle = 3;
  bucket.samples = 6;
  bucket.longestQueue = 9;
  bucket.delay.set(classOf(5_000), 4);
  bucket.workerStarts.total = 1;
  t.deepEqual(decode(encode(bucket)), bucket);
  addRoute(routeAt(bucket.routes, 'GET /x'), { requests: 3, clientErrors: 1, errors: 2, durations: new Map([[7, 3]]) });
  t.deepEqual(decode(encode(bucket)), bucket);
  t.is(decode('{"samples":1,"completed":2,"later":{"a":1}}').counts.completed, 2);
});

test('percentiles are at most 9 % off, over all durations', (t) => {
  t.is(percentile(new Map(), 0.5), null);
  for (const ms of [0, 1, 3, 17, 250, 999, 60_000, 86_400_000]) {
    const found = percentile(new Map([[classOf(ms), 1]]), 0.99) ?? -1;
    t.true(Math.abs(found - ms) <= 0.09 * (ms + 1), `${ms}: ${found}`);
  }
  const durations = new Map([
    [classOf(1_000), 5],
    [classOf(10), 94],
    [classOf(100_000), 1],
  ]);
  t.true((percentile(durations, 0.5) ?? 0) < 12);
  t.true(Math.abs((percentile(durations, 0.99) ?? 0) - 1_000) < 90);
  t.is(classOf(-5), 0);
  t.is(classOf(1e300), classOf(1e200));
});

test('requests of several gateways add up by route, and routes that the endpoint does not declare are no series', async (t) => {
  const input = queueInput('web', { kind: 'LOAD_BALANCED', scalerType: 'REQUEST_COUNT', routes: { 'GET /x': 'web', 'POST /y': 'web' } });
  const { endpoint, recorder, pass, series, store, now } = open(input);
  const report = (route: string, more: object = {}) =>
    recorder.requestsEnded({
      endpointId: endpoint,
      route,
      requests: 2,
      refused: 0,
      errors: 1,
      classes: [classOf(100), classOf(1_000)],
      classCounts: [1, 1],
      ...more,
    });
  await pass(1);
  report('GET /x');
  report('GET /x');
  for (const route of ['', 'GET /none', 'constructor', '__proto__', '*', 'x'.repeat(10_000)]) report(route);
  report('POST /y', { endpointId: 'none' });
  // Lists of different lengths, and a class that does not exist.
  report('POST /y', { classes: [4_000_000_000, 3], classCounts: [1] });
  await pass(1);
  report('GET /x');
  await pass(10);
  const { buckets } = await series(10);
  t.deepEqual(
    buckets.slice(0, 4).map(({ routes }) => [...routes].map(([name, { requests }]) => [name, requests])),
    [
      [],
      [
        ['GET /x', 4],
        ['', 12],
        ['POST /y', 2],
      ],
      [['GET /x', 2]],
      [],
    ],
  );
  const plain = await readSeries(store, { endpoint, from: START, to: now(), step: 10 }, now() + 3_000);
  t.true(
    plain.buckets.every(({ routes }) => routes.size === 0),
    'only for those who ask',
  );
  const [minute] = (await series(60)).buckets;
  t.like(minute?.routes.get('GET /x'), { requests: 6, clientErrors: 0, errors: 3 });
  t.true(Math.abs((percentile(minute?.routes.get('GET /x')?.durations ?? new Map(), 0.5) ?? 0) - 100) < 9);
  t.false(store.writes.some(({ value }) => value.includes('none') || value.includes('xxx')));
});

test('a step tells a bounded number of routes apart, also when steps add up', (t) => {
  const routes: Routes = new Map();
  const one = { requests: 1, clientErrors: 0, errors: 0, durations: new Map([[1, 1]]) };
  for (let n = 0; n < MAX_ROUTES + 20; n++) addRoute(routeAt(routes, `GET /${n}`), one);
  t.is(routes.size, MAX_ROUTES + 1);
  t.is(routes.get(OTHER_ROUTES)?.requests, 20);
  const other: Routes = new Map();
  for (let n = 0; n < MAX_ROUTES; n++) addRoute(routeAt(other, `PUT /${n}`), one);
  addRoutes(routes, other);
  t.is(routes.size, MAX_ROUTES + 1);
  t.is(routes.get(OTHER_ROUTES)?.requests, 20 + MAX_ROUTES);
  const long: Routes = new Map();
  addRoute(routeAt(long, `GET /${'x'.repeat(1_000)}`), one);
  t.deepEqual([...long.keys()], [OTHER_ROUTES]);
});
