/**
 * The checks of `.ci/run`, and which of them run beside others: `.ci/run [names]`. `alone` are those that measure, that fill the processors
 * themselves, or whose subject is what neighbours do to each other. The others wait for half of their time and more: two at a
 * time take little longer than the longer one. What a check needs of time and of processor time is in its last line.
 */
import { spawnSync } from 'node:child_process';

import { runChecks } from './lanes.mjs';

/** Started before the other sets, as they take longest. */
const LONG = ['console', 'gpu-check', 'cluster', 'postgres', 'release', 'tool', 'field', 'integration'];
/** What computes less than a quarter of the time of two processors. */
const WAITS = new Set(['gpu-check', 'outage']);
/** A page must show within seconds what happened. */
const CALM = new Set(['console']);
/** Sets that get the machine to themselves. */
const ALONE = new Set(['benches', 'escapes', 'floods', 'neighbours', 'neighbours-containers', 'stores']);
const npm = (...args) => ['npm', 'run', '--silent', ...args];

const pythonPackages = `${process.cwd()}/node_modules/.cache/ci-python`;
const mypy = ['env', `PYTHONPATH=${pythonPackages}`, 'python3', '-m', 'mypy'];

const { checks, wrong } = await allChecks();
process.exitCode = await runChecks(checks, { only: process.argv.slice(2), wrong });

async function allChecks() {
  const sets = await readSets();
  return {
    wrong: sets.length === 0 ? ['sets'] : [],
    checks: [
      { name: 'readme', alone: true, command: ['grep', '-Eq', '(^|[ `])npm test($|[ `])', 'README.md'] },
      // README's test command first: in a fresh clone it installs what all the others need.
      { name: 'tests', alone: true, command: ['.ci/tests'] },
      // Two minutes of load and faults over all parts, and what clients and handlers saw checked against the promises.
      { name: 'history', waits: true, command: npm('history', '--', '--minutes', '2', '--rate', '40') },
      // The same over three schedulers on PostgreSQL, whose faults meet the owner, standbys and the database, too.
      {
        name: 'history-cluster',
        waits: true,
        command: npm('history', '--', '--schedulers', '3', '--minutes', '1.5', '--rate', '40', '--every', '1.2'),
        whyNot: () =>
          isDone(['node_modules/.bin/node', 'test/support/has-postgres.ts'])
            ? undefined
            : 'there is no PostgreSQL server (CONTRIBUTING.md says which)',
      },
      // The tests that `npm test` leaves out, each set by itself.
      ...longFirst(sets).map(([name, patterns]) => ({
        name,
        command: ['.ci/tests', ...patterns],
        ...{ alone: ALONE.has(name), waits: WAITS.has(name), calm: CALM.has(name) },
      })),
      // All simulated worlds, with the processors to themselves; `tests` has run a hundred of them.
      {
        name: 'simulator',
        alone: true,
        command: ['npm', 'test', '--', 'test/simulator/odd-seeds.test.ts', 'test/simulator/even-seeds.test.ts'],
      },
      { name: 'messages', command: npm('lint:proto') },
      { name: 'generated-code', command: npm('generate:check') },
      { name: 'configuration-page', command: npm('docs:check') },
      { name: 'types', command: npm('types') },
      {
        name: 'python-types',
        command: [...mypy, '--strict', '--python-version', '3.10', '--cache-dir', 'node_modules/.cache/mypy', 'sdk/python/capstan'],
        whyNot: () => (isDone([...mypy, '--version']) ? undefined : 'mypy is not there (.ci/prepare says why)'),
      },
      { name: 'lint', command: npm('lint') },
      // The console has packages of its own, and its sources their own rules.
      {
        name: 'console-build',
        command: ['bash', '-c', 'npm run --silent console && npm run --silent types:console && npm run --silent lint:console'],
      },
      { name: 'format', command: npm('format:check') },
    ],
  };
}

/** Name and patterns of each set; none where the list cannot be read, which fails the run. */
async function readSets() {
  try {
    const { sets } = await import('./sets.mjs');
    return Object.entries(sets);
  } catch (error) {
    console.log(`✗ .ci/sets.mjs cannot be read: ${error.message}`);
    return [];
  }
}

function longFirst(sets) {
  const place = ([name]) => (LONG.includes(name) ? LONG.indexOf(name) : LONG.length);
  return sets.toSorted((a, b) => place(a) - place(b));
}

function isDone([program, ...args]) {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}
