/** Applications whose endpoints are declared in the sources, built and served by the real stack, in both languages. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { Stack } from '../support/stack.ts';
import { folderOf } from '../support/folder.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

let stack: Stack;
test.before(async () => {
  stack = await Stack.start();
});
test.after.always(() => stack.close());

async function call(id: string | undefined, input: object): Promise<unknown> {
  const response = await stack.call(`/v2/${id ?? ''}/runsync`, { method: 'POST', body: JSON.stringify({ input }) });
  return response.json();
}

const python = {
  'workers/gpu_worker.py': `import os
from capstan import Endpoint, GpuGroup

NAME = "embed"
# In a worker of another endpoint nothing of this file runs.
if os.environ["CAPSTAN_ENDPOINT_NAME"] == "search":
    raise RuntimeError("this file belongs to another endpoint")

@Endpoint(name=NAME, workers=(0, 1), env={"MODEL": "small"})
async def embed(text: str, scale: int = 1):
    if text == "":
        raise ValueError("nothing to embed")
    return {"vector": [len(text) * scale], "by": os.environ["CAPSTAN_ENDPOINT_NAME"], "model": os.environ["MODEL"]}

@Endpoint(name="counter", workers=(0, 1))
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, by: int):
        self.count += by
        return self.count
`,
  'cpu_worker.py': `from capstan import Endpoint

@Endpoint(name="search", workers=(0, 1))
async def search(query: str):
    from workers.gpu_worker import embed
    return {"found": await embed(query, scale=2)}
`,
};

test('Python: a function calls another endpoint’s function, without running its file', async (t) => {
  const ids = await stack.deploy(await folderOf(t, python));
  t.deepEqual([...ids.keys()].sort(), ['counter', 'embed', 'search']);
  t.like(await call(ids.get('search'), { query: 'abc' }), {
    status: 'COMPLETED',
    output: { found: { vector: [6], by: 'embed', model: 'small' } },
  });
  t.like(await call(ids.get('search'), { query: '' }), { status: 'FAILED', error: 'nothing to embed' });
  t.like(await call(ids.get('counter'), { by: 2 }), { status: 'COMPLETED', output: 2 });
});

const typescript = {
  'gpu_worker.ts': `import { endpoint } from '@capstan/sdk';
export const LIMIT = 3;
const settings = { name: 'shout', workers: [0, 1] } as const;
export const shout = endpoint(settings, (text: string) => ({ text: text.toUpperCase(), by: process.env['CAPSTAN_ENDPOINT_NAME'] }));
`,
  'cpu_worker.ts': `import { endpoint, Endpoint } from '@capstan/sdk';
import { shout, LIMIT } from './gpu_worker.ts';
export const greet = endpoint({ name: 'greet', workers: [0, 1] }, async (name: string) => ({ hello: await shout(name), LIMIT }));
const api = new Endpoint({ name: 'web', workers: [0, 1] });
api.get('/health', () => ({ status: 'ok' }));
api.post('/greet/{name}', async (name: string) => ({ hello: await greet(name) }));
`,
};

test('TypeScript: a function calls another endpoint’s function; its other exports are the file’s own', async (t) => {
  const ids = await stack.deploy(await folderOf(t, typescript));
  t.deepEqual([...ids.keys()].sort(), ['greet', 'shout', 'web']);
  t.like(await call(ids.get('greet'), { name: 'ada' }), {
    status: 'COMPLETED',
    output: { hello: { text: 'ADA', by: 'shout' }, LIMIT: 3 },
  });
});

test('TypeScript: the methods of a class get values by their types, and refuse others', async (t) => {
  const ids = await stack.deploy(
    await folderOf(t, {
      'shop.ts': `import { endpoint } from '@capstan/sdk';
interface Item { sku: string; count?: number; since?: Date }
class Base { find(sku: string) { return { found: sku }; } }
export const shop = endpoint({ name: 'shop', workers: [0, 1] }, class extends Base {
  total(items: Item[]) { return items.map(({ count = 1, since }) => [count, since instanceof Date]); }
});
`,
    }),
  );
  const shop = ids.get('shop');
  const items = [{ sku: 'a', count: 2, since: '2026-01-31' }, { sku: 'b' }];
  t.like(await call(shop, { method: 'total', items }), {
    status: 'COMPLETED',
    output: [
      [2, true],
      [1, false],
    ],
  });
  t.like(await call(shop, { method: 'total', items: [{ sku: 'a', count: 'x' }, {}] }), {
    status: 'FAILED',
    error: 'items[0].count: must be a number; items[1].sku: is required',
  });
  t.like(await call(shop, { method: 'find', sku: 1 }), { status: 'FAILED', error: 'sku: must be a string' });
});

test('the manifest has the documented shape and only the folder’s own content; the artifact holds no time', async (t) => {
  const folder = await folderOf(t, typescript);
  const build = async (): Promise<{ digest: string; path: string }> =>
    JSON.parse(await stack.tool('build', folder, '--json')) as { digest: string; path: string };
  const first = await build();
  const local = async (name: string): Promise<Record<string, unknown>> =>
    JSON.parse(await readFile(join(folder, '.tool', name), 'utf8')) as Record<string, unknown>;
  const manifest = await local('tool_manifest.json');
  t.deepEqual(Object.keys(manifest), ['resources', 'routes']);
  t.like(manifest, {
    resources: {
      shout: {
        imageName: 'capstan/base-node',
        workersMin: 0,
        workersMax: 1,
        functions: [{ name: 'shout', module: 'gpu_worker.ts', is_async: false, is_class: false }],
      },
      web: { is_load_balanced: true },
    },
    routes: { web: { 'GET /health': 'get_health', 'POST /greet/{name}': 'post_greet_name' } },
  });
  const facts = await local('build.json');
  t.like(facts, { version: '1', project_name: basename(folder) });
  t.regex(String(facts['source_fingerprint']), /^[0-9a-f]{64}$/);
  t.regex(String(facts['generated_at']), /^\d{4}-/);
  const packed = await promisify(execFile)('tar', ['-xzOf', first.path, 'tool_manifest.json', '_capstan/build.json'], { encoding: 'utf8' });
  t.true(packed.stdout.includes(`"source_fingerprint": "${String(facts['source_fingerprint'])}"`));
  t.notRegex(packed.stdout, /generated_at|manifest_sha256/);
  t.is((await build()).digest, first.digest);
});

test('--env-file sets its variables for every endpoint, without the tool’s own; without it the tool says what .env would', async (t) => {
  const folder = await folderOf(t, {
    'worker.py': `import os
from capstan import Endpoint

@Endpoint(name="vars", workers=(0, 1), env={"MODE": "declared", "TOKEN": os.environ["TOKEN"]})
def read_vars():
    return {name: os.environ.get(name) for name in ("MODE", "TOKEN", "DATABASE_URL", "CAPSTAN_NOTE")}
`,
    '.env': 'TOKEN=from-dot-env\nDATABASE_URL=sqlite:///local.db\nSERVICE_API_KEY=mine\n',
    'production.env': 'TOKEN=s3cret\nMODE=file\nDATABASE_URL="postgres://db"\nCAPSTAN_NOTE=1\nSERVICE_API_KEY=mine\n',
    'wrong.env': 'A.B=1\n',
  });
  const deploy = async (...args: string[]): Promise<{ stderr: string; id: string }> => {
    const env = { ...process.env, NO_COLOR: '1', SERVICE_API_KEY: stack.apiKey };
    // Without `--`, Node itself refuses a file that is not there.
    const command = ['--', tool, 'deploy', folder, '--json', '--url', stack.url, ...args];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, command, { env });
    return { stderr, id: (JSON.parse(stdout) as { id: string }[])[0]?.id ?? '' };
  };
  const plain = await deploy();
  t.regex(
    plain.stderr,
    /^! \.env is not part of the artifact, and no endpoint gets DATABASE_URL; --env-file \.env sets it for all endpoints$/m,
  );
  t.like(await call(plain.id, {}), { output: { MODE: 'declared', TOKEN: 'from-dot-env', DATABASE_URL: null } });
  const { stderr, id } = await deploy('--env-file', join(folder, 'production.env'));
  t.regex(stderr, /production\.env: CAPSTAN_NOTE, SERVICE_API_KEY are the tool's own and not set for endpoints$/m);
  t.notRegex(stderr, /s3cret|postgres:|\.env is not part/);
  t.like(await call(id, {}), { output: { MODE: 'declared', TOKEN: 's3cret', DATABASE_URL: 'postgres://db', CAPSTAN_NOTE: null } });
  const wrong = await t.throwsAsync<Error & { stderr: string }>(deploy('--env-file', join(folder, 'wrong.env')));
  t.regex(wrong.stderr, /^✗ --env-file: \S+wrong\.env\["A\.B"\]: must be a name of letters, digits and underscores$/m);
  const absent = await t.throwsAsync<Error & { stderr: string }>(deploy('--env-file', join(folder, 'none.env')));
  t.regex(absent.stderr, /^✗ --env-file: cannot read \S+none\.env \(ENOENT\)$/m);
});

type Cell = string | { readonly source: readonly string[]; readonly tags: readonly string[] };

/** A notebook of nbformat 4. */
function notebook(...cells: readonly Cell[]): string {
  return JSON.stringify({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
    cells: cells.map((cell, index) => ({
      id: `c${index}`,
      cell_type: 'code',
      metadata: typeof cell === 'string' ? {} : { tags: cell.tags },
      execution_count: null,
      outputs: [],
      source: typeof cell === 'string' ? cell : cell.source,
    })),
  });
}

test('a notebook: its endpoints and what they need are exported and deployed; the rest neither runs nor goes along', async (t) => {
  const cells = [
    'import os, json\nimport matplotlib.pyplot as plt\n%matplotlib inline\n!pip install pandas',
    'from capstan import Endpoint',
    'df = load_frame("large.csv")\ndf.plot()',
    'SCALE = 2\ndef helper(n):\n    df = n * SCALE\n    return df',
    { source: ['table = {n: n * n for n in range(4)}\n', 'print("warm")'], tags: ['export'] },
    '@Endpoint(name="scaled", workers=(0, 1))\ndef scaled(n: int):\n    return json.dumps([helper(n), table[n]])',
    'scaled(3)',
    'notes that are no Python',
  ] as const;
  const folder = await folderOf(t, { 'my analysis.ipynb': notebook(...cells) });
  const rows = JSON.parse(await stack.tool('deploy', join(folder, 'my analysis.ipynb'), '--json')) as { id: string; name: string }[];
  t.deepEqual(
    rows.map(({ name }) => name),
    ['scaled'],
  );
  t.like(await call(rows[0]?.id, { n: 3 }), { status: 'COMPLETED', output: '[6, 9]' });
  const module = await readFile(join(folder, 'my_analysis.py'), 'utf8');
  t.notRegex(module, /plt|load_frame|scaled\(3\)|pip/);
  const build = async (...changed: readonly Cell[]): Promise<string> => {
    await writeFile(join(folder, 'my analysis.ipynb'), notebook(...changed));
    const built = stack.tool('build', join(folder, 'my analysis.ipynb'));
    return built.catch((error: unknown) => String(error));
  };
  const [, sdk, , , , declared] = cells;
  t.regex(
    await build('import json', sdk, 'table = make()', declared),
    /my analysis\.ipynb: cell 3, line 1: table is set by code that runs, and scaled \(cell 4\) uses it; set it inside/,
  );
  t.regex(await build(sdk), /my analysis\.ipynb declares no endpoint/);
  t.regex(await build(sdk, '@Endpoint(name="x")\ndef x(:'), /my analysis\.ipynb: cell 2, line 2: /);
  await writeFile(join(folder, 'my_analysis.py'), 'mine = 1\n');
  t.regex(await build(...cells), /my_analysis\.py exists beside my analysis\.ipynb, and capstan did not write it/);
});
