/**
 * Imports in TypeScript: what TypeScript finds loads in a build and under `capstan run`, and what Node cannot load is
 * refused with its place before anything is deployed.
 */
import { execFile } from 'node:child_process';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { extract } from 'tar';

import { writeHandlers } from '../../devserver/handlers.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import { folderOf } from '../support/folder.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const sdk = new URL('../../sdk/typescript/sdk.ts', import.meta.url).href;
const execute = promisify(execFile);
const FLAGS = ['--experimental-transform-types', '--disable-warning=ExperimentalWarning'];
const nothing = (): undefined => undefined;

const serving = (imports: string, value: string, name = 'one'): string => `${imports}
import { endpoint } from '@capstan/sdk';
export const ${name} = endpoint({ name: '${name}' }, async () => (${value}));
`;

interface Call {
  readonly handler: string;
  readonly name: string;
  /** Loaded before it. */
  readonly before?: string;
}

/** Loads a handler as a worker does, and returns what its function returns. */
async function called(cwd: string, { handler, name, before = '' }: Call): Promise<unknown> {
  const script = `${before}
const handler = await import(${JSON.stringify(join(cwd, handler))});
console.log(JSON.stringify(await handler[${JSON.stringify(name)}]()));`;
  const { stdout } = await execute(process.execPath, [...FLAGS, '--input-type=module', '--eval', script], { cwd });
  return JSON.parse(stdout) as unknown;
}

async function built(t: ExecutionContext, folder: string): Promise<string> {
  const running = run([bin, 'build'], { cwd: folder, env: { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache') } });
  t.is(await running.ended, 0, running.stderr());
  const place = await folderOf(t);
  await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
  return place;
}

const WITH_SDK = `import { registerHooks } from 'node:module';
registerHooks({ resolve: (specifier, context, next) => (specifier === '@capstan/sdk' ? { url: ${JSON.stringify(sdk)}, shortCircuit: true } : next(specifier, context)) });`;

/** The value of endpoint `one` in its build, and under `capstan run`. */
async function valuesOf(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<unknown[]> {
  const folder = await folderOf(t, files);
  const ofBuild = await called(await built(t, folder), { handler: '_capstan/one/handler.mjs', name: 'one' });
  const { endpoints, rules } = await discover(folder, nothing);
  await writeHandlers(folder, endpoints, rules);
  return [ofBuild, await called(folder, { handler: '.tool/dev/one.mjs', name: 'one', before: WITH_SDK })];
}

const loads: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, value: unknown]>> = {
  'imports without extension, of folders, and of .js that is .ts': [
    {
      'src/main.ts': serving(
        `import { a } from './a';\nimport { b } from './dir';\nimport { c } from '../src/c.js';\nimport { d } from './dir/';`,
        '[a, b, c, d, (await import("./late")).e]',
      ),
      'src/a.ts': `export * from './more/a';`,
      'src/more/a.ts': 'export const a = 1;',
      'src/dir/index.ts': 'export const b = 2;\nexport const d = 4;',
      'src/c.ts': 'export const c = 3;',
      'src/late.mts': 'export const e = 5;',
    },
    [1, 2, 3, 4, 5],
  ],
  'decorators of TypeScript before the standard, with the types of what they decorate': [
    {
      'tsconfig.base.json': '{"compilerOptions": {"experimentalDecorators": true}}',
      'tsconfig.json': '{"extends": "./tsconfig.base.json", "compilerOptions": {"emitDecoratorMetadata": true}}',
      'main.ts': serving(`import { seen, A } from './a';`, '[seen, new A({ n: 1 }, "b").m("c"), A.name]'),
      'dep.ts': 'export interface Shape { n: number }\nexport class Dep { n = 0; }',
      'a.ts': `import { Dep, Shape } from './dep';
export const seen: string[] = [];
const metadata = new Map<unknown, unknown[]>();
(Reflect as any).metadata = (key: string, value: unknown) => (target: any, name?: string) => { metadata.set(key + (name ?? ''), value as unknown[]); };
const Injectable = () => (target: any) => { seen.push((metadata.get('design:paramtypes') ?? []).map((each: any) => each.name).join()); };
const log = (target: any, name: string, descriptor: PropertyDescriptor) => {
  const { value } = descriptor;
  descriptor.value = function (...all: unknown[]) { return name + value.apply(this, all); };
};
const param = (target: any, name: string | undefined, index: number) => { seen.push(String(name) + index); };
enum Kind { One = 'one' }
@Injectable()
export class A {
  constructor(private readonly dep: Dep, public name: string, readonly shape?: Shape) {}
  @log m(@param text: string): string { return this.dep.n + this.name + text + Kind.One; }
}`,
    },
    [['m0', 'Dep,String,Object'], 'm1bcone', 'A'],
  ],
  'decorators of the standard, of classes, methods, fields and accessors': [
    {
      'main.ts': serving(`import { A, seen } from './a.ts';`, '[new A().m(), new A().field, new A().value, seen]'),
      'a.ts': `export const seen: unknown[] = [];
function named(value: any, context: ClassDecoratorContext) { seen.push(context.kind + String(context.name)); }
function twice(value: () => number, context: ClassMethodDecoratorContext) { return function (this: any) { return value.call(this) * 2; }; }
function plus(_: undefined, context: ClassFieldDecoratorContext) { return (initial: number) => initial + 1; }
@named
export class A {
  #n = 21;
  @plus field = 1;
  @plus accessor value = 1;
  @twice m(): number { return this.#n; }
}`.replace('@plus accessor value = 1', 'value = 3'),
    },
    [42, 2, 3, ['classA']],
  ],
  'paths and baseUrl of tsconfig.json, also of one that it extends': [
    {
      'tsconfig.base.json': `{ // shared\n "compilerOptions": { "baseUrl": "src", "paths": { "@/*": ["*"], "~": ["entry.ts",], "@/deep/*": ["missing/*", "deeper/*"] } } }`,
      'tsconfig.json': `{ "extends": "./tsconfig.base", "compilerOptions": { /* none */ } }`,
      'src/main.ts': serving(
        `import { a } from '@/lib/a';\nimport { b } from '~';\nimport { c } from 'lib/c';\nimport { d } from '@/deep/d';`,
        '[a, b, c, d]',
      ),
      'src/lib/a.ts': 'export const a = 1;',
      'src/entry.ts': 'export const b = 2;',
      'src/lib/c.ts': 'export const c = 3;',
      'src/deeper/d.ts': 'export const d = 4;',
    },
    [1, 2, 3, 4],
  ],
  'types that are imported and exported like values': [
    {
      'main.ts': serving(
        `import { a, Shape, type Other } from './a';\nimport Whole from './whole';\nimport { Far } from './far';\nimport { Ambient } from './ambient';\nexport { Shape, Far };\nexport { Shape as Form } from './a';\ninterface Local { a: number }\nexport { Local };`,
        `[a, ({ a: 1 } satisfies Shape as Shape | Other | Whole | Far | Ambient | Local)]`,
      ),
      'a.ts': 'export interface Shape { a: number }\nexport type Other = Shape;\nexport const a = 1;',
      'whole.ts': 'export default interface Whole { a: number }',
      'far.ts': `export * from './farther';`,
      'farther.ts': `import { Shape } from './a';\nexport { Shape as Far };`,
      'ambient.d.ts': 'export interface Ambient { a: number }',
    },
    [1, { a: 1 }],
  ],
  'a package of type commonjs whose sources are modules': [
    {
      'package.json': '{"type": "commonjs"}',
      'main.ts': serving(`import { a } from './a.js';`, '[a, tla]').replace('export', 'const tla = await Promise.resolve(2);\nexport'),
      'a.ts': 'export const a = 1;',
    },
    [1, 2],
  ],
  'JSON, subpaths of package.json, CommonJS, and a circle': [
    {
      'package.json': '{"name": "app", "imports": {"#lib/*": "./lib/*.ts"}, "exports": {"./own": "./own.ts"}}',
      'main.ts': serving(
        `import data from './data.json';\nimport again from './data.json' with { type: 'json' };\nimport { a } from '#lib/a';\nimport { b } from './b.cts';\nimport { even } from './even';\nimport { own } from 'app/own';`,
        '[data.k, again.k, a, b, even(4), own]',
      ),
      'data.json': '{"k": 1}',
      'lib/a.ts': 'export const a = 2;',
      'b.cts': `const { c } = require('./c');\nexports.b = c;`,
      'c.ts': 'exports.c = 3 as number;',
      'even.ts': `import { odd } from './odd';\nexport const even = (n: number): boolean => n === 0 || odd(n - 1);`,
      'odd.ts': `import { even } from './even';\nexport const odd = (n: number): boolean => n !== 0 && even(n - 1);`,
      'own.ts': 'export const own = 4;',
    },
    [1, 1, 2, 3, true, 4],
  ],
  'enums, namespaces and parameter properties': [
    {
      'main.ts': serving(
        `import { Level } from './level';\nenum Color { Red = 'red' }\nnamespace Inner { export const a = 1; }\nclass Point { constructor(private readonly x: number) {} get() { return this.x; } }`,
        '[Color.Red, Inner.a, new Point(2).get(), Level.High]',
      ),
      'level.ts': 'export const enum Level { Low, High }',
    },
    ['red', 1, 2, 1],
  ],
  'a shebang, CRLF, a BOM, and names with spaces and signs': [
    {
      'my app #1/ma in@2%.ts': `\ufeff#!/usr/bin/env node\r\n${serving(`import { a } from './a b?c';`, 'a').replaceAll('\n', '\r\n')}`,
      'my app #1/a b?c.ts': 'export const a = 1;',
    },
    1,
  ],
};

for (const [title, [files, value]] of Object.entries(loads)) {
  test(`loads: ${title}`, async (t) => {
    t.deepEqual(await valuesOf(t, files), [value, value]);
  });
}

test('a stub of another endpoint’s file is found by an alias, too; its own names come from the file', async (t) => {
  const folder = await folderOf(t, {
    'tsconfig.json': '{"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}',
    'src/one.ts': serving(`import { two, own, Shape } from '@/two';`, '[typeof two, own, ({} as Shape)]'),
    'src/two.ts': `export interface Shape { a?: number }\nexport const own = 1;\n${serving('', '2', 'two')}`,
  });
  const place = await built(t, folder);
  t.deepEqual(await called(place, { handler: '_capstan/one/handler.mjs', name: 'one' }), ['function', 1, {}]);
});

const refusals: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, message: string]>> = {
  'a decorator that the standard does not have': [
    {
      'main.ts': serving(`import { a } from './a';`, 'a'),
      'a.ts': 'const mark = (...all: unknown[]): any => all;\n\nexport class A {\n  m(@mark x: string) {}\n}\nexport const a = 1;',
    },
    'a.ts:4:5: the standard has no decorators of parameters',
  ],
  JSX: [
    { 'main.ts': serving(`import { a } from './a';`, 'a'), 'a.tsx': 'export const a = <div />;' },
    'main.ts:1:19: the import ./a is a.tsx, and Node loads no .tsx',
  ],
  'a style sheet': [
    { 'main.ts': serving(`import './a.css';`, '1'), 'a.css': '' },
    'main.ts:1:8: the import ./a.css is a.css, and Node loads no .css',
  ],
  'a missing file': [{ 'main.ts': serving(`import { a } from './a';`, 'a') }, 'main.ts:1:19: the import ./a is not a file of the project'],
  'a file outside of the project': [
    { 'main.ts': serving(`import { a } from '../../a.ts';`, 'a') },
    'main.ts:1:19: the import ../../a.ts is not a file of the project',
  ],
  'a missing name': [
    { 'main.ts': serving(`import { a, b } from './a';`, 'a'), 'a.ts': 'export const a = 1;' },
    'main.ts:1:13: a.ts has no export b',
  ],
  'a name of JSON': [
    { 'main.ts': serving(`import { a } from './a.json';`, 'a'), 'a.json': '{"a": 1}' },
    'main.ts:1:10: a.json has no export a: JSON has a default export only',
  ],
  'an ignored file': [
    { 'main.ts': serving(`import { a } from './gen/a';`, 'a'), 'gen/a.ts': 'export const a = 1;', '.gitignore': 'gen/\n' },
    'main.ts:1:19: the import ./gen/a is gen/a.ts, which an ignore file or its name keeps out of the artifact',
  ],
  'a syntax error in an imported file': [
    { 'main.ts': serving(`import { a } from './a';`, 'a'), 'a.ts': 'export const a = 1;\nexport const = 2;' },
    'a.ts:2:14: unexpected token',
  ],
  'import = in a module': [
    { 'main.ts': serving(`import fs = require('node:fs');`, 'fs') },
    'main.ts:1:1: import … = require() is CommonJS, and this file is a module',
  ],
  'a module in .cts': [
    { 'main.ts': serving(`import { a } from './a.cts';`, 'a'), 'a.cts': 'export const a = 1;' },
    'a.cts:1:1: import and export do not exist in .cts, which Node loads as CommonJS',
  ],
  'a backslash in a name': [{ 'a\\b.ts': serving('', '1') }, 'a\\b.ts:1:1: Node imports no file whose name contains a backslash'],
  'another Unicode form of a name': [
    { 'main.ts': serving(`import { a } from './caf\u00e9';`, 'a'), 'cafe\u0301.ts': 'export const a = 1;' },
    'main.ts:1:19: the import ./caf\u00e9 is not a file of the project',
  ],
  'UTF-16 in an imported file': [
    { 'main.ts': serving(`import { a } from './a';`, 'a'), 'a.ts': 'utf-16' },
    'a.ts:1: the file must be UTF-8, which Node reads; it is UTF-16LE',
  ],
};

for (const [title, [files, message]] of Object.entries(refusals)) {
  test(`refused with its place: ${title}`, async (t) => {
    const folder = await folderOf(t, files);
    if (files['a.ts'] === 'utf-16') await writeFile(join(folder, 'a.ts'), Buffer.from('\ufeffexport const a = 1;', 'utf16le'));
    await t.throwsAsync(discover(folder, nothing), { code: 'INVALID_MANIFEST', message: (text) => text.startsWith(message) });
  });
}

test('with a written manifest, which has no generated handler, files must load as they are', async (t) => {
  const manifest = JSON.stringify({ resources: { one: { functions: [{ name: 'one', module: 'one.ts' }] } } });
  const refusal = async (files: Readonly<Record<string, string>>): Promise<string> => {
    const folder = await folderOf(t, { 'tool_manifest.json': manifest, ...files });
    const running = run([bin, 'build'], { cwd: folder, env: { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache') } });
    return (await running.ended) === 65 ? (/^✗ (.*)$/m.exec(running.stderr())?.[1] ?? '') : running.stderr();
  };
  const one = `\nexport const one = () => a;`;
  t.is(
    await refusal({ 'one.ts': `import { a } from './a';${one}`, 'a.ts': 'export const a = 1;' }),
    'one.ts:1:19: Node does not find the import ./a',
  );
  t.is(
    await refusal({ 'one.ts': `import { a, A } from './a.ts';${one}`, 'a.ts': 'export type A = 1;\nexport const a = 1;' }),
    'one.ts:1:13: A is a type, which Node looks for at run time',
  );
  t.regex(await refusal({ 'one.ts': `import { a } from './a.ts';${one}`, 'a.ts': 'export const a = 1;' }), /✓/);
});

test('a project below a link loads, too', async (t) => {
  const folder = await folderOf(t, {
    'app/main.ts': serving(`import { a } from './lib';`, 'a'),
    'app/real/lib.ts': `export { a } from './a';`,
    'app/real/a.ts': 'export const a = 1;',
  });
  await symlink('real/lib.ts', join(folder, 'app/lib.ts'));
  await mkdir(join(folder, 'elsewhere'));
  await rename(join(folder, 'app'), join(folder, 'elsewhere/app'));
  await symlink('elsewhere/app', join(folder, 'app'));
  const place = await built(t, join(folder, 'app'));
  t.is(await called(place, { handler: '_capstan/one/handler.mjs', name: 'one' }), 1);
});
