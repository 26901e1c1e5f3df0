/**
 * The tests that take longest, in sets. Each is a check of `.ci/run` by its name; `npm test` without arguments leaves them out.
 *
 *   node .ci/sets.mjs            prints the names
 *   node .ci/sets.mjs <name>     prints the patterns of one, for `.ci/tests`
 *
 * A test belongs here when its subject is heavy (load, kills, containers, packages from a registry), not when it is merely slow: that is to be mended.
 */
import { fileURLToPath } from 'node:url';

export const sets = {
  runtimes: [
    ...['channel-keys', 'container-runtimes', 'containers', 'foreign-workers'].map((name) => `test/agent/${name}.test.ts`),
    'test/conformance/runtime/*.test.ts',
  ],
  integration: ['test/integration/*.test.ts'],
  stores: ['test/conformance/store/sqlite*.test.ts'],
  sandbox: ['test/cli/start-levels.test.ts', 'test/sandbox/bwrap-*.test.ts', 'test/sandbox/users*.test.ts'],
  escapes: ['test/escapes/*.test.ts'],
  neighbours: ['test/neighbours/channel.test.ts'],
  'neighbours-containers': ['test/neighbours/channel-containers.test.ts'],
  // Beside the other file, its own calls would be slow.
  floods: ['test/neighbours/floods.test.ts'],
  builds: ['build-checks', 'build-step', 'command-check', 'declared', 'node-imports', 'python-modules', 'uv-sources'].map(
    (name) => `test/cli/${name}.test.ts`,
  ),
  tool: [
    'call',
    'cut-off',
    'deploy',
    'dev-contract',
    'dev-debug',
    'dev-neighbours',
    'dev-python',
    'dev-server',
    'developer',
    'hostile-text',
    'npx',
    'preview',
    'remote',
    'samples',
    'stack',
    'start',
    'status',
    'tool',
    'user-view',
    'webhooks',
  ].map((name) => `test/cli/${name}.test.ts`),
  cluster: ['test/cli/up-schedulers.test.ts', 'test/deploy/dashboard.test.ts', 'test/deploy/second-host.test.ts', 'test/cluster/*.test.ts'],
  postgres: ['test/conformance/store/postgres*.test.ts', 'test/support/postgres.test.ts'],
  compose: ['test/deploy/compose-run.test.ts'],
  parameters: ['test/parameters/*.test.ts'],
  sdk: ['test/sdk/remote.test.ts', 'test/sdk/stack.test.ts'],
  packages: ['test/cli/packages*.test.ts'],
  release: ['test/release/*.test.ts'],
  'gpu-check': ['test/gpu-check/*.test.ts'],
  clients: ['test/clients/*.test.ts'],
  outage: ['test/outage/*.test.ts'],
  'load-balancer': ['python', 'requests', 'server'].map((name) => `test/lb/${name}.test.ts`),
  faults: ['test/fault/*.test.ts', 'test/lb/faults.test.ts', 'test/agent/processes.test.ts'],
  apps: ['documented', 'run', 'websockets'].map((name) => `test/apps/${name}.test.ts`),
  field: ['test/apps/field.test.ts'],
  frameworks: ['test/frameworks/*.test.ts'],
  telemetry: ['stack-traces', 'ended-waits', 'collector*'].map((name) => `test/telemetry/${name}.test.ts`),
  console: ['test/console/*.test.ts'],
  // Three hosts, which it breaks.
  night: ['test/night/*.test.ts'],
  benches: ['test/bench/benches.test.ts'],
};

/** Sets whose workers run as strongly isolated as the machine can: what a user's applications and functions do must work there. */
const ISOLATED = ['apps', 'clients', 'field', 'frameworks', 'parameters', 'sdk'];

/** CAPSTAN_ISOLATION of a run of ava with these arguments: `auto` when all files belong to such sets. */
export function levelFor(args) {
  const patterns = ISOLATED.flatMap((name) => sets[name]);
  const files = args.filter((arg) => !arg.startsWith('-')).map((file) => file.replace(/^\.\//, ''));
  const isIsolated = (file) => patterns.some((pattern) => file === pattern || isMatch(file, pattern));
  return files.length > 0 && files.every(isIsolated) ? 'auto' : 'none';
}

function isMatch(file, pattern) {
  const [before, after] = pattern.split('*');
  return after !== undefined && file.startsWith(before) && file.endsWith(after);
}

/** What ava runs: with arguments that name files all may be named, without them all but the sets. */
export function filesFor(args) {
  const all = ['test/**/*.test.ts'];
  return args.some((arg) => !arg.startsWith('-'))
    ? all
    : [...all, ...Object.values(sets).flatMap((patterns) => patterns.map((each) => `!${each}`))];
}

// Node 20 has no import.meta.main.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name] = process.argv.slice(2);
  const lines = name === undefined ? Object.keys(sets) : sets[name];
  if (lines === undefined) throw new Error(`there is no set ${name}; there are: ${Object.keys(sets).join(', ')}`);
  for (const line of lines) console.log(line);
}
