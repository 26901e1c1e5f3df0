/** What is declared in sources, found without running them; and every refusal with its place. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { discover } from '../../compiler/discovery/discover.ts';
import type { DeclaredApplication } from '../../compiler/discovery/declared.ts';
import { CapstanError } from '../../lib/errors.ts';
import { checkSettings, resourceOf } from '../../sdk/typescript/settings.ts';
import { folderOf } from '../support/folder.ts';

const variables: Readonly<Record<string, string>> = { TOKEN: 'from the shell' };

async function found(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<DeclaredApplication> {
  const folder = await folderOf(t);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return discover(folder, (name) => variables[name]);
}

const py = (body: string): string => `import os\nfrom capstan import Endpoint, GpuGroup, Secret\n${body}`;
const ts = (body: string): string => `import { endpoint, Endpoint, GpuGroup, secret } from '@capstan/sdk';\n${body}`;

test('the same declaration in both languages is the same endpoint', async (t) => {
  const { endpoints } = await found(t, {
    'a.py': py(`
WORKERS = (0, 3)
@Endpoint(name="a", gpu=GpuGroup.ADA_24, workers=WORKERS, idle_timeout=300, dependencies=["requests>=2"], env={"T": os.environ["TOKEN"], "D": os.getenv("NONE", "x"), "S": Secret("KEY")})
async def run_a(text: str, count: int = 1): ...
`),
    'b.ts': ts(`
const WORKERS = [0, 3] as const;
export const run_b = endpoint({ name: 'b', gpu: GpuGroup.ADA_24, workers: WORKERS, idleTimeout: 300, dependencies: ['requests>=2'],
  env: { T: process.env.TOKEN, D: process.env['NONE'] ?? 'x', S: secret('KEY') } }, async (text: string, count = 1) => text);
`),
  });
  t.deepEqual(
    endpoints.map(({ name }) => name),
    ['a', 'b'],
  );
  const [a, b] = endpoints;
  t.deepEqual({ ...a?.settings, name: '' }, { ...b?.settings, name: '' });
  t.deepEqual(a?.settings.env, { T: 'from the shell', D: 'x', S: '{{ CAPSTAN_SECRET_KEY }}' });
  const keys = (at: typeof a): unknown => at?.functions[0]?.reading.parameters.map(({ name, required }) => [name, required]);
  t.deepEqual(keys(a), [
    ['text', true],
    ['count', false],
  ]);
  t.deepEqual(keys(b), keys(a));
  t.like(a?.functions[0], { name: 'run_a', isAsync: true, isClass: false });
});

test('a value of env may hold several secrets', async (t) => {
  const value = '{{ CAPSTAN_SECRET_USER }}:{{ CAPSTAN_SECRET_PASSWORD }}';
  const { endpoints } = await found(t, { 'a.py': py(`@Endpoint(name="a", env={"K": "${value}"})\ndef a(): ...\n`) });
  t.deepEqual(endpoints[0]?.settings.env, { K: value });
});

test('routes, classes, functions without a name, and handles that declare nothing', async (t) => {
  const { endpoints } = await found(t, {
    'web.ts': ts(`
const api = new Endpoint({ name: 'web' });
const other = new Endpoint('abc123');
api.get('/items/{id}', (id: string) => id);
export const add = api.post('/items', function insert(item: object) { return item; });
export const model = endpoint({ name: 'model' }, class Model { ask(q: string) { return q; } _own() {} });
`),
    'server.py': py(`
api = Endpoint(name="server")
client = Endpoint("abc123")
@api.get("/health")
@api.get("/ping")
def health(): return {}
@Endpoint(name="image", image="registry.example/own:1")
def with_image(): ...
`),
  });
  t.deepEqual(
    endpoints.map(({ name, functions }) => [name, functions.map((each) => [each.name, each.route?.method, each.route?.path])]),
    [
      [
        'server',
        [
          ['health', 'GET', '/health'],
          ['health', 'GET', '/ping'],
        ],
      ],
      ['image', [['with_image', undefined, undefined]]],
      [
        'web',
        [
          ['get_items_id', 'GET', '/items/{id}'],
          ['add', 'POST', '/items'],
        ],
      ],
      ['model', [['model', undefined, undefined]]],
    ],
  );
  t.deepEqual(Object.keys(endpoints[3]?.functions[0]?.methods ?? {}), ['ask']);
});

test('images that serve by themselves, jobs or requests', async (t) => {
  const { endpoints } = await found(t, {
    'images.py': py(
      'llm = Endpoint(name="llm", image="registry.example/llm:1")\nweb = Endpoint(name="web", image="registry.example/web:1", load_balanced=True)\n',
    ),
    'images.ts': ts("export const site = new Endpoint({ name: 'site', image: 'registry.example/site:1', loadBalanced: true });"),
  });
  t.deepEqual(
    endpoints.map(({ name, settings, functions }) => [name, settings.image, settings.loadBalanced, functions]),
    [
      ['llm', 'registry.example/llm:1', false, []],
      ['web', 'registry.example/web:1', true, []],
      ['site', 'registry.example/site:1', true, []],
    ],
  );
  t.is(resourceOf(endpoints[1]?.settings ?? checkSettings({ name: 'none' }))['is_load_balanced'], true);
});

test('ignored files declare nothing', async (t) => {
  const { endpoints } = await found(t, {
    '.gitignore': 'old/\n',
    '.toolignore': 'draft.py\n',
    'old/a.py': py('@Endpoint(name="a")\ndef a(): ...\n'),
    'draft.py': py('@Endpoint(name="b")\ndef b(): ...\n'),
    'venv/pyvenv.cfg': '',
    'venv/e.py': py('@Endpoint(name="e")\ndef e(): ...\n'),
    'node_modules/x/c.js': ts("endpoint({ name: 'c' }, function c() {});"),
    'd.py': py('@Endpoint(name="d")\ndef d(): ...\n'),
  });
  t.deepEqual(
    endpoints.map(({ name }) => name),
    ['d'],
  );
});

const refused: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
  [
    'a value made at run time in Python',
    { 'a.py': py('@Endpoint(name="a", workers=(0, int("3")))\ndef a(): ...\n') },
    /^a\.py:3: workers must be a literal; `int\('3'\)` is not$/,
  ],
  [
    'a value made at run time in TypeScript',
    { 'a.ts': ts("endpoint({ name: 'a', workers: count() }, function a() {});") },
    /^a\.ts:2: workers must be a literal; `count\(\)` is not$/,
  ],
  [
    'a setting against its rule',
    { 'a.py': py('@Endpoint(\n    name="a",\n    idle_timeout=0,\n)\ndef a(): ...\n') },
    /^a\.py:5: endpoint a: idle_timeout must be an integer between 1 and 3600 s, not 0$/,
  ],
  [
    'a setting that is none',
    { 'a.ts': ts("endpoint({ name: 'a', gpus: 1 }, function a() {});") },
    /^a\.ts:2: endpoint a: unknown setting "gpus" \(did you mean gpu\?\)/,
  ],
  [
    'a variable that is not set',
    { 'a.py': py('@Endpoint(name="a", env={"K": os.environ["NOT_SET"]})\ndef a(): ...\n') },
    /^a\.py:3: env K refers to the variable NOT_SET, which is not set$/,
  ],
  [
    'a secret in Python with a name that no secret has',
    { 'a.py': py('@Endpoint(name="a", env={"K": Secret("my-key")})\ndef a(): ...\n') },
    /^a\.py:3: env K refers to the secret "my-key", which must be a name of 1 to 128 letters, /,
  ],
  [
    'a secret in TypeScript with a name that no secret has',
    { 'a.ts': ts("endpoint({ name: 'a', env: { K: secret('') } }, function a() {});") },
    /^a\.ts:2: env K refers to the secret "", which must be a name of 1 to 128 letters, /,
  ],
  [
    'an endpoint declared twice',
    { 'a.py': py('@Endpoint(name="x")\ndef a(): ...\n'), 'b.ts': ts("endpoint({ name: 'x' }, function b() {});") },
    /^the endpoint x is declared twice: at a\.py:3 and at b\.ts:2; /,
  ],
  [
    'a function defined twice',
    { 'a.py': py('@Endpoint(name="x")\ndef f(): ...\n'), 'b.ts': ts("export const f = endpoint({ name: 'y' }, () => 1);") },
    /^the function f is defined twice: at a\.py:4 and at b\.ts:2; /,
  ],
  [
    'two functions on a queue',
    { 'a.py': py('e = Endpoint(name="x")\n@e\ndef f(): ...\n@e\ndef g(): ...\n') },
    /^a\.py:7: endpoint x already serves f \(a\.py:5\); /,
  ],
  [
    'routes and a function',
    { 'a.py': py('e = Endpoint(name="x")\n@e.get("/a")\ndef f(): ...\n@e\ndef g(): ...\n') },
    /^a\.py:3: endpoint x has routes and a function without one \(a\.py:7\)$/,
  ],
  [
    'a route bound twice',
    { 'a.ts': ts("const e = new Endpoint({ name: 'x' });\ne.get('/{a}', (a: string) => a);\ne.get('/{b}', (b: string) => b);") },
    /^a\.ts:4: endpoint x: GET \/\{b\} is already bound to get_a \(a\.ts:3\)$/,
  ],
  [
    'a path without its slash',
    { 'a.py': py('e = Endpoint(name="x")\n@e.get("health")\ndef f(): ...\n') },
    /^a\.py:4: endpoint x: the path of f must start with \/, /,
  ],
  [
    'a function without a route on an endpoint for requests',
    { 'a.ts': ts("endpoint({ name: 'x', loadBalanced: true }, function f() {});") },
    /^a\.ts:2: endpoint x is load-balanced, and f has no route; /,
  ],
  ['an endpoint without a function', { 'a.py': py('e = Endpoint(name="x")\n') }, /^a\.py:3: endpoint x has no function and no route; /],
  [
    'system packages without an image',
    { 'a.py': py('@Endpoint(name="x", system_dependencies=["ffmpeg"])\ndef f(): ...\n') },
    /^a\.py:3: endpoint x: ffmpeg are system packages, which require a container image/,
  ],
  ['a syntax error in Python', { 'a.py': py('def f(:\n') }, /^a\.py:3:7: /],
  [
    'a syntax error in a module that a file of the application imports',
    {
      'a.py': py('def f():\n    from lib import deep'),
      'lib/__init__.py': '',
      'lib/deep.py': 'from . import broken\n',
      'lib/broken.py': 'x = (\n',
    },
    /^lib\/broken\.py:1:5: /,
  ],
  ['a syntax error in TypeScript', { 'a.ts': ts('const = 1;') }, /^a\.ts:2:7: /],
];

for (const [title, files, message] of refused) {
  test(`refused: ${title}`, async (t) => {
    const error = await t.throwsAsync(found(t, files), { instanceOf: CapstanError });
    t.is(error.code, 'INVALID_MANIFEST');
    t.regex(error.message, message);
  });
}
