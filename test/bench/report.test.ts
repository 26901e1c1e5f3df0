import test from 'ava';

import { median, targets, verdict } from '../../bench/figures.ts';
import { makeReport, renderReport } from '../../bench/report.ts';
import type { LoadResult } from '../../bench/driver/load.ts';

const facts = {
  at: '2026-01-01T00:00:00.000Z',
  machine: { cpu: 'some', cores: 2, node: '24.0.0', load: [0.5] },
  options: { connections: 64, seconds: 5, rounds: 3 },
};
const latency = { p50: 1, p90: 2, p95: 2, p99: 3, p999: 4, max: 5, mean: 1 };
const run = (perSecond: number, more: Partial<LoadResult> = {}): LoadResult => ({
  perSecond,
  answers: perSecond,
  sent: perSecond,
  seconds: 1,
  latency,
  driverCpu: 0.5,
  statuses: { '200': perSecond },
  errors: 0,
  examples: {},
  ...more,
});

test('the median stands in the middle', (t) => {
  t.is(median([3, 1, 2]), 2);
  t.is(median([4, 1, 2, 3]), 2.5);
  t.true(Number.isNaN(median([])));
});

test('a ratio must be high enough, a time low enough', (t) => {
  t.is(verdict(targets.runParked, 0.55), 'goal');
  t.is(verdict(targets.runParked, 0.3), 'floor');
  t.is(verdict(targets.runParked, 0.29), 'below');
  t.is(verdict(targets.start, 0.7), 'goal');
  t.is(verdict(targets.start, 1.9), 'floor');
  t.is(verdict(targets.start, 2.1), 'below');
  t.is(verdict(targets.storeDepth, 0.81), 'floor');
});

test('a report holds each figure with floor and goal, and the table shows them', (t) => {
  const report = makeReport(
    facts,
    {
      loads: {
        runsync: {
          ratio: 0.2,
          ratios: [0.2],
          perSecond: 8000,
          echoPerSecond: 40_000,
          completedPerSecond: 7900,
          cores: { gateway: 0.75 },
          runs: [run(8000)],
        },
      },
      echo: [run(40_000), run(40_000)],
      start: [{ jobs: 10, start: latency, roundTrip: latency, errors: 0, examples: [] }],
    },
    { depths: [{ depth: 1000, cyclesPerSecond: 20_000, p50Ms: 1, p99Ms: 2 }], ratio: 0.9 },
  );
  t.deepEqual(report.figures, {
    runsync: { value: 0.2, floor: 0.12, goal: 0.25, verdict: 'floor' },
    start: { value: 1, floor: 2, goal: 0.7, verdict: 'floor' },
    storeDepth: { value: 0.9, floor: 0.8, goal: null, verdict: 'floor' },
  });
  t.is(report.errors, 0);
  const text = renderReport(report);
  for (const part of [
    '/runsync no-op',
    '0.200',
    '0.12',
    '0.25',
    '8,000/s of 40,000',
    '7,900 ended/s',
    '1.00 ms',
    '20,000/s at 1,000',
    'gateway 0.75',
  ])
    t.true(text.includes(part), part);
});

test('errors of any run are counted and shown', (t) => {
  const report = makeReport(
    facts,
    {
      loads: {
        runsync: {
          ratio: 0.2,
          ratios: [0.2],
          perSecond: 1,
          echoPerSecond: 1,
          completedPerSecond: 1,
          cores: {},
          runs: [run(1, { errors: 2, examples: { 'status 503': 'busy' } })],
        },
      },
      echo: [run(1, { errors: 1, examples: { 'no answer': 'late' } })],
      start: [],
    },
    null,
  );
  t.is(report.errors, 3);
  t.regex(renderReport(report), /3 errors:[^]*runsync: status 503: busy[^]*echo: no answer: late/);
});
