import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

import { writingEvents } from './.ci/events.mjs';
import { filesFor, levelFor } from './.ci/sets.mjs';

// Kept for the whole run: the last thread that ends with a native module unloads it, under the threads that the module may have (a run
// of all tests once ended with SIGSEGV as a file that had parsed sources ended). Checkouts that tests make have no packages.
if (existsSync(join(import.meta.dirname, 'node_modules/oxc-parser'))) await import('oxc-parser');

/**
 * The files that take longest by themselves (13 s and more of two quiet processors, 2026-11-22), longest first: started last, one of them would
 * keep the whole run waiting for itself. What waits much and computes little is among the first, so that others compute meanwhile.
 */
const LONG = [
  'simulator/odd-seeds',
  'simulator/even-seeds',
  'clients/runpod-worker',
  'integration/fleet',
  'fault/kill',
  'agent/foreign-workers',
  'integration/graphql',
  'bench/benches',
  'clients/runpod-python',
  'agent/processes',
  'lb/faults',
  'fault/fleet',
  'cli/remote',
  'fault/supervisor',
  'cli/cut-off',
  'fault/stall',
  'agent/session',
  'cli/preview',
  'contract/contract',
  'gateway/body-memory',
  'agent/inventory-errors',
  'agent/process-runtime',
  'agent/log-shares',
  'agent/output',
  'telemetry/tracing',
  'ci/tests',
  'architecture/transitions',
  'simulator/simulator',
  'conformance/runtime/container-python',
  'lb/requests',
  'property/retention',
  'agent/containers',
  'integration/webhooks',
  'lb/python',
  'cli/start',
  'sdk/remote',
  'sdk/stack',
  'conformance/runtime/thread',
  'cli/dev-server',
  'cli/deploy',
  'cli/tool',
  'cli/packages',
  'integration/runtimes',
  'contract/time',
  'examples/text-analysis-python',
  'sdk/python',
  'agent/starvation',
].map((name) => join('test', `${name}.test.ts`));

const place = (file) => {
  const found = LONG.findIndex((name) => file.endsWith(name));
  return found === -1 ? LONG.length : found;
};

/**
 * The path, with the folder of the Python that `python3` ends up at before that of a `python3` that is no more than a script
 * choosing one (pyenv, asdf): the choice takes 25 times as long as Python's own start, at every start.
 */
function pathWithPython(path = '') {
  const folders = path.split(delimiter);
  const at = folders.findIndex((folder) => existsSync(join(folder, 'python3')));
  if (at === -1) return path;
  const asked = spawnSync(join(folders[at], 'python3'), ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' });
  // What is wrong with it is for the tests that use it.
  if (asked.status !== 0) return path;
  const real = dirname(asked.stdout.trim());
  return folders.includes(real) ? path : folders.toSpliced(at, 0, real).join(delimiter);
}

/** Where `.ci/tests` wants the events of this run; not for runs that the tests start. */
const eventFile = process.env['CAPSTAN_TEST_EVENTS'];
delete process.env['CAPSTAN_TEST_EVENTS'];

const files = filesFor(process.argv.slice(2));
const isWhole = files.length > 1;
/** Files at a time, by processor. The tests of `npm test` wait for nearly half of their time; a check of whole stacks runs beside another check. */
const filesByProcessor = isWhole ? 2 : 1.5;

/**
 * Tests run as they are: Node strips the types. Each file is a thread of its own, and what it starts
 * it ends; more of them than there are processors, since many wait most of their time.
 */
export default {
  ...(eventFile === undefined ? {} : writingEvents(eventFile)),
  files,
  extensions: ['ts'],
  timeout: '2m',
  concurrency: Math.min(8, Math.ceil(availableParallelism() * filesByProcessor)),
  sortTestFiles: (a, b) => place(a) - place(b) || a.localeCompare(b),
  // `npm test` sets it; `npx ava` alone would have every process strip and compile all sources anew.
  environmentVariables: {
    // Handlers of unit tests write files of this host. Sets of tests whose subject is isolation run at what the host has.
    CAPSTAN_ISOLATION: process.env['CAPSTAN_ISOLATION'] ?? levelFor(process.argv.slice(2)),
    // Accounts that tests create run on nodes of this level.
    CAPSTAN_ACCOUNT_ISOLATION: 'none',
    // All files beside one another leave no time for 2,000 simulated worlds; the simulator's files by themselves run these.
    SIM_SEEDS: process.env['SIM_SEEDS'] ?? (isWhole ? '100' : '2000'),
    PATH: pathWithPython(process.env['PATH']),
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(import.meta.dirname, 'node_modules/.cache/compile'),
  },
};
