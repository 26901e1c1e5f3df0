/** The tool as its users meet it: words, streams, exit codes. */
import { chmod, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { explain } from '../../terminal/tool-error.ts';
import { run, type RunOptions } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');
const bin = join(root, 'cli/capstan.mjs');

interface Said {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

async function capstan(args: readonly string[], options: RunOptions = {}): Promise<Said> {
  const running = run([bin, ...args], options);
  const code = await running.ended;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}

/** A port of 127.0.0.1 that is taken until the test ends. */
async function takenPort(t: ExecutionContext): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** One line with a sign, one hint, and nothing else: no stack. */
const line = (message: string): RegExp => new RegExp(`^✗ ${message}\nhint: [^\n]+\n$`);

test('help lists every command but the inner one; data goes to stdout', async (t) => {
  const { code, stdout, stderr } = await capstan(['--help']);
  t.is(code, 0);
  t.is(stderr, '');
  for (const name of ['up', 'deploy', 'endpoints', 'logs', 'workers', 'node', 'doctor', 'scheduler', 'gateway', 'agent', 'version']) {
    t.regex(stdout, new RegExp(`^  ${name} `, 'm'));
  }
  t.notRegex(stdout, /^ {2}start/m);
});

test('without a command it shows its help, and that is a mistake', async (t) => {
  const { code, stdout, stderr } = await capstan([]);
  t.is(code, 2);
  t.is(stdout, '');
  t.regex(stderr, /^Usage: capstan/);
});

test('what is to be run next is said as the tool was called', async (t) => {
  const folder = await folderOf(t);
  t.regex((await capstan(['init', 'one'], { cwd: folder })).stderr, /^next: cd one && capstan run$/m);
  const byNpx = { cwd: folder, env: { npm_lifecycle_event: 'npx' } };
  t.regex((await capstan(['init', 'two'], byNpx)).stderr, /^next: cd two && npx capstan run$/m);
  t.regex((await capstan(['logs'], byNpx)).stderr, /^hint: Usage: npx capstan logs --help$/m);
});

test('version, for people and for programs', async (t) => {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  t.is((await capstan(['version'])).stdout, `${version}\n`);
  t.is((await capstan(['--version'])).stdout, `${version}\n`);
  const { node, version: said } = JSON.parse((await capstan(['version', '--json'])).stdout) as { node: string; version: string };
  t.is(said, version);
  t.regex(node, /^\d+\.\d+\.\d+$/);
});

const mistakes: [string, readonly string[], number, RegExp][] = [
  ['an unknown command', ['endpionts'], 2, /^✗ unknown command 'endpionts'\nhint: Did you mean endpoints\? Usage: capstan --help\n$/],
  ['help about an unknown command', ['help', 'endpionts'], 2, line("unknown command 'endpionts'")],
  [
    'an unknown subcommand',
    ['node', 'token', 'crate', '--name', 'x'],
    2,
    /^✗ unknown command 'crate'\nhint: Did you mean create\? Usage: capstan node token --help\n$/,
  ],
  ['help about an unknown subcommand', ['help', 'node', 'tokn'], 2, line("unknown command 'tokn'")],
  ['an unknown subcommand with --help', ['node', 'explode', '--help'], 2, line("unknown command 'explode'")],
  [
    'an unknown option',
    ['endpoints', 'list', '--jsn'],
    2,
    /^✗ unknown option '--jsn'\nhint: Did you mean --json\? Usage: capstan endpoints list --help\n$/,
  ],
  [
    'a value that an option does not accept',
    ['keys', 'create', 'ci', '--scope', 'endpoint'],
    2,
    /^✗ --scope: must be one of all, endpoints, read-only, environment, operator\nhint: Did you mean endpoints\? Usage: capstan keys create --help\n$/,
  ],
  ['an output format that is unknown', ['endpoints', 'list', '-o', 'yaml'], 2, line('--output: must be one of text, json')],
  ['an argument that is none of a set', ['completion', 'tcsh'], 2, line('shell: must be one of bash, zsh, fish')],
  ['a word too many', ['node', 'list', 'more'], 2, line("too many arguments for 'list'.*")],
  ['an argument that is missing', ['logs'], 2, /^✗ missing required argument 'endpoint'\nhint: Usage: capstan logs --help\n$/],
  ['a port that is none', ['doctor', '--http-port', 'http'], 2, line('--http-port: must be a port number between 0 and 65535')],
  ['a port too high', ['doctor', '--grpc-port', '65536'], 2, line('--grpc-port: must be a port number between 0 and 65535')],
  ['an address that is none', ['backup', 'copy', '--scheduler', 'here'], 2, line('--scheduler: must be host:port or unix:<path>')],
  ['a limit out of range', ['logs', 'e', '--limit', '1001'], 2, line('--limit: must be an integer between 1 and 1000')],
  ['a folder that is not there', ['deploy', '/nowhere'], 66, /^=> building \/nowhere\n✗ folder \/nowhere does not exist\nhint: [^\n]+\n$/],
];
for (const [what, args, exit, message] of mistakes) {
  test(`a wrong command line: ${what}`, async (t) => {
    const { code, stdout, stderr } = await capstan(args);
    t.regex(stderr, message);
    t.is(code, exit);
    t.is(stdout, '');
  });
}

test('a mistake in the environment names the variable', async (t) => {
  const { code, stderr } = await capstan(['doctor'], { env: { CAPSTAN_HTTP_PORT: '-1' } });
  t.is(code, 78);
  t.regex(stderr, line('CAPSTAN_HTTP_PORT: must be a port number between 0 and 65535'));
});

test('no key anywhere: one line that says how to get one', async (t) => {
  const { code, stderr } = await capstan(['endpoints', 'list', '--data-dir', await folderOf(t)], { cwd: await folderOf(t) });
  t.is(code, 78);
  t.regex(stderr, line('SERVICE_API_KEY: no API key is set, and the data folder contains none'));
});

test('nobody at the address: one line that says how to start it', async (t) => {
  const { code, stderr } = await capstan(['endpoints', 'list', '--url', 'http://127.0.0.1:1'], {
    env: { SERVICE_API_KEY: 'k3y-of-the-test' },
  });
  t.is(code, 69);
  t.regex(stderr, line('the gateway at http://127\\.0\\.0\\.1:1 does not respond'));
  t.regex(stderr, /capstan up/);
});

test('CAPSTAN_DEBUG shows the stack, and still no key', async (t) => {
  const { stderr } = await capstan(['endpoints', 'list', '--url', 'http://127.0.0.1:1'], {
    env: { SERVICE_API_KEY: 'k3y-of-the-test', CAPSTAN_DEBUG: '1' },
  });
  t.regex(stderr, /\n {4}at /);
  t.false(stderr.includes('k3y-of-the-test'));
});

const manifests: [string, string | null, RegExp][] = [
  [
    'nothing that declares an endpoint',
    null,
    /^✗ no endpoint in .*\nhint: Declare one, in Python:\n[^]+@Endpoint\([^]+or in TypeScript:\n[^]+endpoint\(\{/m,
  ],
  ['half a manifest', '{"resources": {', /^=> building .*\n✗ tool_manifest\.json is not JSON.*\nhint: The smallest manifest: .*\n$/],
  [
    'an empty manifest',
    '{"resources": {}}',
    /^=> building .*\n✗ tool_manifest\.json: resources: must contain at least one endpoint\nhint: .*\n$/,
  ],
  [
    'a broken rule',
    '{"resources": {"a": {"functions": [], "idleTimeout": 0}}}',
    /^=> building .*\n✗ tool_manifest\.json has 2 errors:\n {2}resources\.a.*\n {2}resources\.a.*\nhint: .*\n$/,
  ],
  [
    'a module that is not there',
    '{"resources": {"a": {"functions": [{"name": "f", "module": "m"}]}}}',
    /^=> building .*\n✗ resources\.a\.functions\[0\]\.module: the module m is not in the folder .*\nhint: .*\n$/,
  ],
];
for (const [what, manifest, message] of manifests) {
  test(`deploy of a folder with ${what}: exit code 65, nothing is built`, async (t) => {
    const folder = await folderOf(t);
    if (manifest !== null) await writeFile(join(folder, 'tool_manifest.json'), manifest);
    const { code, stderr, stdout } = await capstan(['deploy', folder]);
    t.is(code, 65);
    t.regex(stderr, message);
    t.is(stdout, '');
  });
}

test('up with the HTTP port in use: one line that names it, exit code 69, nothing left running', async (t) => {
  const port = await takenPort(t);
  const folder = await folderOf(t);
  const { code, stderr } = await capstan(['up', '--data-dir', folder, '--http-port', String(port), '--grpc-port', '0']);
  t.is(code, 69);
  t.regex(stderr, line(`.*127\\.0\\.0\\.1:${port}.*`));
});

test('up with the scheduler’s port in use: the same', async (t) => {
  const port = await takenPort(t);
  const { code, stderr } = await capstan(['up', '--data-dir', await folderOf(t), '--http-port', '0', '--grpc-port', String(port)]);
  t.is(code, 69);
  t.regex(stderr, line(`.*127\\.0\\.0\\.1:${port}.*`));
});

test('a part alone with its port in use: the same', async (t) => {
  const port = await takenPort(t);
  const { code, stderr } = await capstan(['scheduler', '--data-dir', await folderOf(t), '--grpc-port', String(port)]);
  t.is(code, 69);
  t.regex(stderr, line(`.*127\\.0\\.0\\.1:${port}.*`));
});

test('up on a data folder of a newer version: one line, exit code 74, the folder as it was', async (t) => {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'version'), '99\n');
  const { code, stderr } = await capstan(['up', '--data-dir', folder, '--http-port', '0', '--grpc-port', '0']);
  t.is(code, 74);
  t.regex(stderr, line(`the data folder ${folder} has layout version 99; .*`));
  t.is(await readFile(join(folder, 'version'), 'utf8'), '99\n');
});

test('doctor on a host where nothing runs: warnings are no faults', async (t) => {
  const args = ['doctor', '--data-dir', await folderOf(t), '--http-port', '0', '--grpc-port', '0'];
  const { code, stdout, stderr } = await capstan(args);
  t.is(code, 0);
  t.is(stdout, '');
  t.regex(stderr, /^[✓!] Node\.js: /m);
  t.regex(stderr, /^✓ data folder: /m);
  t.regex(stderr, /^! stack: no stack is running on this data folder$/m);
  const findings = JSON.parse((await capstan([...args, '--json'])).stdout) as {
    name: string;
    verdict: string;
    text: string;
    hint: string;
  }[];
  t.true(findings.every(({ verdict }) => verdict === 'ok' || verdict === 'warning'));
  t.true(findings.filter(({ verdict }) => verdict !== 'ok').every(({ hint }) => hint !== ''));
});

test('doctor finds a port in use', async (t) => {
  const port = await takenPort(t);
  const { code, stderr } = await capstan(['doctor', '--data-dir', await folderOf(t), '--http-port', String(port), '--grpc-port', '0']);
  t.is(code, 78);
  t.regex(stderr, new RegExp(`^✗ HTTP port: ${port} is not available \\(EADDRINUSE\\)\nhint: `, 'm'));
});

/** Makes the program believe in an old Node, before its first line. */
const oldNode = [
  '--import',
  `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.20.2'}});Object.defineProperty(process,'version',{value:'v20.20.2'})`,
];

test('an old Node and no other: exactly one line, exit code 78', async (t) => {
  const folder = await folderOf(t);
  await mkdir(join(folder, 'cli'));
  await cp(bin, join(folder, 'cli/capstan.mjs'));
  const running = run([...oldNode, join(folder, 'cli/capstan.mjs'), 'version']);
  t.is(await running.ended, 78);
  t.is(running.stdout(), '');
  t.regex(running.stderr(), /^✗ Capstan requires Node\.js 22\.18 or newer, but this is v20\.20\.2: [^\n]+\n$/);
});

test('an old Node hands over to the one that came with the dependencies: arguments, exit code and signals pass', async (t) => {
  const folder = await folderOf(t);
  await mkdir(join(folder, 'cli'));
  await mkdir(join(folder, 'node_modules/.bin'), { recursive: true });
  await cp(bin, join(folder, 'cli/capstan.mjs'));
  await symlink(process.execPath, join(folder, 'node_modules/.bin/node'));
  await writeFile(
    join(folder, 'cli/main.ts'),
    `const [code = '0'] = process.argv.slice(2);
     if (code === 'wait') {
       const timer = setInterval(() => undefined, 1e6);
       process.on('SIGTERM', () => { console.log('told'); clearInterval(timer); process.exitCode = 5; });
     } else process.exitCode = Number(code);
     console.log('runs', process.argv.slice(2).join(' '));`,
  );
  const passing = run([...oldNode, join(folder, 'cli/capstan.mjs'), '7', 'x y']);
  t.is(await passing.ended, 7);
  t.is(passing.stdout(), 'runs 7 x y\n');
  const waiting = run([...oldNode, join(folder, 'cli/capstan.mjs'), 'wait']);
  await waiting.hear(/runs/);
  waiting.child.kill('SIGTERM');
  t.is(await waiting.ended, 5);
  t.is(waiting.stdout(), 'runs wait\ntold\n');
});

test('a part that an old Node hands over says why it refuses, and ends with Ctrl+C', async (t) => {
  const dataDir = await folderOf(t);
  const agent = run([...oldNode, bin, 'agent', '--data-dir', join(dataDir, 'agent')]);
  t.is(await agent.ended, 78, agent.stderr());
  t.regex(agent.stderr(), /✗ this node has not joined and has no join token: set CAPSTAN_JOIN_TOKEN or CAPSTAN_JOIN_TOKEN_FILE\n/);
  const scheduler = run([...oldNode, bin, 'scheduler', '--data-dir', join(dataDir, 'scheduler'), '--grpc-port', '0'], { detached: true });
  t.teardown(() => scheduler.child.kill('SIGKILL'));
  await scheduler.hear(/scheduler started/);
  // As a terminal does: to both, and the first passes it on as well.
  process.kill(-(scheduler.child.pid ?? 0), 'SIGINT');
  t.is(await scheduler.ended, 0, scheduler.stderr());
});

for (const [how, code] of [
  ['ends', 130],
  ['ended', 0],
] as const)
  test(`a signal that comes late to a command that ${how}: exit code ${code}`, async (t) => {
    const running = run([join(import.meta.dirname, 'fakes/ending.ts'), how]);
    t.teardown(() => running.child.kill('SIGKILL'));
    await running.hear(/^runs$/m);
    running.child.kill('SIGINT');
    await running.hear(/^told$/m);
    running.child.kill('SIGINT');
    running.child.kill('SIGUSR2');
    t.is(await running.ended, code);
  });

test('what the system refuses is told with its place, and is no fault of ours', (t) => {
  const refused = Object.assign(new Error("EACCES: permission denied, open '/app/.tool/lock'"), {
    code: 'EACCES',
    path: '/app/.tool/lock',
  });
  t.like(explain(refused), { message: '/app/.tool/lock: permission denied (EACCES)', exitCode: 74 });
  t.like(explain(new TypeError('x is not a function')), { message: 'internal error: x is not a function', exitCode: 70 });
});

test('the command can be run as a file', async (t) => {
  const folder = await folderOf(t);
  await symlink(bin, join(folder, 'capstan'));
  await chmod(bin, 0o755);
  const running = run(['version'], { program: join(folder, 'capstan') });
  t.is(await running.ended, 0);
});
