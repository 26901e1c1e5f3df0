/** Deploying waits until the new releases serve, and says what keeps them from it; requests to what cannot start are refused at once. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import test from 'ava';

import { ownFolder } from '../support/own-folder.ts';
import { canFindProcesses } from '../support/processes.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const linux = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');
const tool = join(import.meta.dirname, '../../cli/main.ts');

const start = sharedStack(test);
let stack: Stack;
test.before(async () => {
  if (canFindProcesses) stack = await start();
});

interface Deployed {
  readonly code: number | null;
  readonly stderr: string;
  readonly ids: ReadonlyMap<string, string>;
}

/** Into a pipe, as in CI. */
async function deploy(files: Readonly<Record<string, string>>, ...args: string[]): Promise<Deployed> {
  const folder = await ownFolder('capstan-wait');
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
  const child = spawn(process.execPath, [tool, 'deploy', folder, '--json', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  const rows = stdout === '' ? [] : (JSON.parse(stdout) as { id: string; name: string }[]);
  return { code, stderr, ids: new Map(rows.map(({ id, name }) => [name, id])) };
}

linux('a Python and a Node that no node has are named, and refused with --strict', async (t) => {
  t.timeout(90_000);
  const files = {
    'pyproject.toml': '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.99"\n',
    'package.json': '{"type":"module","engines":{"node":"^18 || ^20"}}',
    'main.py': 'from capstan import Endpoint\n@Endpoint(name="old", workers=(0, 0))\ndef old(): return 1\n',
    'main.ts': "import { endpoint } from '@capstan/sdk';\nexport const late = endpoint({ name: 'late', workers: [0, 0] }, () => 1);\n",
  };
  const named = await deploy(files, '--python', '3.99');
  t.is(named.code, 0, named.stderr);
  t.regex(
    named.stderr,
    /^! endpoint old needs Python >=3\.99 \(pyproject\.toml\), and the connected nodes have Python 3\.\d+\.\d+; its workers start/m,
  );
  t.regex(named.stderr, /^! endpoint late needs Node \^18 \|\| \^20 \(engines of package\.json\), and the connected nodes have Node 24\./m);
  const refused = await deploy(files, '--python', '3.99', '--strict');
  t.is(refused.code, 75, refused.stderr);
  t.regex(refused.stderr, /nothing was uploaded: endpoint old needs Python >=3\.99/);
});

linux('without any request, and with workersMin 0, a worker of each release has started when deploy ends', async (t) => {
  t.timeout(90_000);
  const { code, stderr, ids } = await deploy({
    'main.py': `from capstan import Endpoint
api = Endpoint(name="api", workers=(0, 1))
@api.get("/h")
def h(): return {"ok": True}
@Endpoint(name="queue", workers=(0, 1), idle_timeout=1)
def queue(x: int): return x
@Endpoint(name="asleep", workers=(0, 0))
def asleep(): return 1
`,
  });
  t.is(code, 0, stderr);
  for (const name of ['api', 'queue']) {
    t.regex(stderr, new RegExp(`^=> ${name}: (starting|preparing|waiting)`, 'm'));
    t.regex(stderr, new RegExp(`^✓ ${name}: ready on .* after `, 'm'));
  }
  t.regex(stderr, /^=> asleep: paused/m);
  t.is((await stack.call(`/lb/${ids.get('api') ?? ''}/h`)).status, 200);
});

linux('a module that is not there ends the deployment with its name, in TypeScript, Python, and programs of their own', async (t) => {
  t.timeout(120_000);
  const manifest = {
    resources: {
      server: { is_load_balanced: true, command: ['node', 'server.mjs'], workersMax: 1 },
      loop: { command: ['python3', '-u', 'loop.py'], workersMax: 1 },
      typed: { functions: [{ name: 'f', module: 'typed' }], workersMax: 1 },
    },
  };
  const { code, stderr, ids } = await deploy({
    'tool_manifest.json': JSON.stringify(manifest),
    'server.mjs': "import express from 'expresss';\nexpress().listen(process.env.PORT);\n",
    'loop.py': 'import runpodx\n',
    'typed.ts': "import pad from 'left-padd';\nexport const f = () => pad('a', 3);\n",
  });
  t.is(code, 1, stderr);
  t.regex(stderr, /^✗ server does not start: 3 consecutive starts failed: .*Cannot find package 'expresss' imported from/m);
  t.regex(stderr, /^✗ loop does not start: .*ModuleNotFoundError: No module named 'runpodx'/m);
  t.regex(stderr, /^✗ typed does not start: .*Cannot find package 'left-padd' imported from/m);
  t.regex(stderr, /Last lines of its log:\n.*import runpodx|Last lines of its log:[^✗]*ModuleNotFoundError/s);
  // A caller of it need not wait.
  const answer = await until('requests are refused', async () => {
    const got = await stack.call(`/lb/${ids.get('server') ?? ''}/`);
    return got.status === 503 ? got : null;
  });
  t.regex(((await answer.json()) as { detail: string }).detail, /its workers do not start: .*Cannot find package 'expresss'/);
  t.true(Number(answer.headers.get('retry-after')) >= 1);
});

linux('an endpoint that could not start serves by itself once it can, while its callers are refused', async (t) => {
  t.timeout(120_000);
  const folder = await ownFolder('capstan-wait');
  const weights = join(folder, 'weights');
  const { code, ids } = await deploy({
    'main.py': `from capstan import Endpoint
WEIGHTS = open(${JSON.stringify(weights)}).read()
api = Endpoint(name="late", workers=(0, 1), idle_timeout=60)
@api.get("/h")
def h(): return {"weights": WEIGHTS}
`,
  });
  t.is(code, 1);
  const call = (): Promise<Response> => stack.call(`/lb/${ids.get('late') ?? ''}/h`);
  t.is((await call()).status, 503);
  await writeFile(weights, 'here');
  const served = await until('it serves', async () => {
    const answer = await call();
    return answer.status === 200 ? answer : null;
  });
  t.deepEqual(await served.json(), { weights: 'here' });
});

linux('what no node can run is deployed with a warning, and its requests are refused at once', async (t) => {
  t.timeout(60_000);
  const source = `from capstan import Endpoint
api = Endpoint(name="huge", workers=(0, 1), cpu="cpu3c-512-1024")
@api.get("/h")
def h(): return 1
`;
  const { code, stderr, ids } = await deploy({ 'main.py': source });
  t.is(code, 0, stderr);
  t.regex(stderr, /^! huge: no node can run it: CPU on 1 node.*; it serves once a node joins/m);
  const answer = await stack.call(`/lb/${ids.get('huge') ?? ''}/h`);
  t.is(answer.status, 503);
  t.regex(await answer.text(), /no node can run it: CPU/);
  t.is(answer.headers.get('retry-after'), '10');
});

linux('--no-wait ends at once, and --wait-timeout after its time, with what it waits for', async (t) => {
  t.timeout(60_000);
  const slow = {
    'main.py': 'import time\nfrom capstan import Endpoint\ntime.sleep(30)\n@Endpoint(name="slow", workers=(0, 1))\ndef f(): return 1\n',
  };
  const apart = await deploy(slow, '--no-wait');
  t.is(apart.code, 0);
  t.notRegex(apart.stderr, /slow: starting/);
  const late = await deploy(slow, '--wait-timeout', '1s');
  t.is(late.code, 1);
  t.regex(late.stderr, /^✗ slow does not serve yet: starting on /m);
  const wrong = await deploy(slow, '--wait-timeout', 'soon');
  t.regex(wrong.stderr, /--wait-timeout: must be a number followed by/);
});
