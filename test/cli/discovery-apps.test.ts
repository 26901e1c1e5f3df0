/** Web applications and commands in declarations: where a worker finds them, and every refusal with its place. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { missingServers } from '../../compiler/build/app-servers.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import type { DeclaredEndpoint } from '../../compiler/discovery/declared.ts';
import { CapstanError } from '../../lib/errors.ts';
import { folderOf } from '../support/folder.ts';

async function found(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<readonly DeclaredEndpoint[]> {
  const folder = await folderOf(t);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return (await discover(folder, () => undefined)).endpoints;
}

const py = (body: string): string => `from capstan import Endpoint\n${body}`;
const ts = (body: string): string => `import { endpoint, Endpoint } from '@capstan/sdk';\n${body}`;

test('an application is a name in a module of the project, or any expression of the declaration itself', async (t) => {
  const endpoints = await found(t, {
    'apis.py': py(`
from web import app
Endpoint(name="named", app="web.main:app")
Endpoint(name="attribute", app="web:sites.main")
Endpoint(name="factory", app="web:create_app()")
Endpoint(name="imported", app=app)
Endpoint(name="made", app=make_app(debug=False))
Endpoint(name="constant", app=NAME)
NAME = "web:app"
`),
    'web/__init__.py': 'import flask\n',
    'web/main.py': 'import fastapi\ntry:\n  import orjson\nexcept ImportError: pass\n',
    'apis.ts': ts(`
import { app } from './server.ts';
export default endpoint({ name: 'n-imported', app });
export const file = endpoint({ name: 'n-file', app: 'server.ts' });
export const named = new Endpoint({ name: 'n-named', app: './lib/server.js:api' });
`),
    'server.ts': 'export const app = () => undefined;',
    'lib/server.js': '',
  });
  t.deepEqual(Object.fromEntries(endpoints.map(({ name, app }) => [name, app])), {
    named: { file: 'web/main.py', name: 'app' },
    attribute: { file: 'web/__init__.py', name: 'sites.main' },
    factory: { file: 'web/__init__.py', name: 'create_app()' },
    imported: { file: null, name: '' },
    made: { file: null, name: '' },
    constant: { file: 'web/__init__.py', name: 'app' },
    'n-imported': { file: null, name: '' },
    'n-file': { file: 'server.ts', name: '' },
    'n-named': { file: 'lib/server.js', name: 'api' },
  });
  t.true(endpoints.every(({ settings, functions }) => settings.loadBalanced && functions.length === 0));
  // What hosts must have depends on the application's file, too.
  t.deepEqual(endpoints.find(({ name }) => name === 'named')?.imports, ['capstan', 'fastapi', 'web']);
});

test('the build adds the server that an application needs, unless the project has it', (t) => {
  const app = { file: null, name: '' };
  const serving = (imports: string[], given: string[] = [], of: typeof app | null = app): string[] =>
    missingServers([{ app: of, imports } as unknown as DeclaredEndpoint], given).sort();
  t.deepEqual(serving(['capstan', 'fastapi']), ['uvicorn', 'wsproto']);
  t.deepEqual(serving(['flask']), ['waitress']);
  // Django has both interfaces, and a file that only imports the project's own code shows none.
  t.deepEqual(serving(['django']), ['uvicorn', 'waitress', 'wsproto']);
  t.deepEqual(serving(['starlette', 'flask']), ['uvicorn', 'waitress', 'wsproto']);
  t.deepEqual(serving(['fastapi'], ['Uvicorn[standard]==0.30.1', 'websockets>=12']), []);
  t.deepEqual(serving(['fastapi'], [], null), []);
});

const REFUSED: readonly [name: string, files: Readonly<Record<string, string>>, message: RegExp][] = [
  [
    'no such module',
    { 'a.py': py('Endpoint(name="a", app="main:app")') },
    /^a\.py:2: endpoint a: app main:app: main\.py is not in the project$/,
  ],
  ['no name', { 'a.py': py('Endpoint(name="a", app="a.py")') }, /^a\.py:2: endpoint a: app must have the form module:name/],
  [
    'a module outside of the project',
    { 'a.py': py('Endpoint(name="a", app="../main:app")') },
    /^a\.py:2: endpoint a: app must have the form module:name/,
  ],
  ['a syntax error in the application', { 'a.py': py('Endpoint(name="a", app="b:app")'), 'b.py': 'app = (' }, /^b\.py:1:\d+: /],
  [
    'no such file',
    { 'a.ts': ts("endpoint({ name: 'a', app: 'b.ts' });") },
    /^a\.ts:2: endpoint a: app b\.ts: b\.ts is not in the project$/,
  ],
  [
    'a file outside of the project',
    { 'a.ts': ts("endpoint({ name: 'a', app: '../b.ts' });") },
    /^a\.ts:2: endpoint a: app must be a file of the project/,
  ],
  [
    'a module name',
    { 'a.ts': ts("endpoint({ name: 'a', app: 'express:app' });") },
    /^a\.ts:2: endpoint a: app must be a file of the project/,
  ],
  [
    'a function beside an application',
    { 'a.py': py('api = Endpoint(name="a", app="a:web")\n@api.get("/")\ndef home(): ...') },
    /^a\.py:4: endpoint a serves an app, which handles every path itself, and cannot have functions \(home\)$/,
  ],
  [
    'a function beside a command',
    { 'a.ts': ts("endpoint({ name: 'a', command: ['node', 'x.js'] }, function job() {});") },
    /^a\.ts:2: endpoint a runs a command, which handles every path itself, and cannot have functions \(job\)$/,
  ],
  [
    'system packages without an image',
    { 'a.py': py('Endpoint(name="a", command=["ffmpeg"], system_dependencies=["ffmpeg"])') },
    /^a\.py:2: endpoint a: ffmpeg are system packages, which require a container image/,
  ],
  [
    'words that are not known before the code runs',
    { 'a.py': py('Endpoint(name="a", command=["x", PORT])') },
    /^a\.py:2: command must be a literal; `PORT` is not$/,
  ],
];
for (const [name, files, message] of REFUSED) {
  test(`refused: ${name}`, async (t) => {
    const error = await t.throwsAsync(found(t, files), { instanceOf: CapstanError });
    t.regex(error?.message ?? '', message);
  });
}
