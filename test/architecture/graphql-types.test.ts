/** GraphQL is typed from its schema: a field without a resolver's value does not compile, nor does a client's wrong use of a reply. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { buildSchema, printSchema } from 'graphql';

import { operationTypes } from '../../tools/graphql-types/operation-types.ts';
import { schemaTypes } from '../../tools/graphql-types/schema-types.ts';
import { schema } from '../../gateway/graphql/schema.ts';
import { folderOf } from '../support/folder.ts';
import { root } from './imports.ts';

const text = printSchema(schema);
const small = buildSchema(`
  type Query { thing(id: ID!): Thing things(first: Int = 3, filter: Filter): [Thing!]! }
  type Thing { id: ID! kind: Kind! parts: [Part!] note: String numbers: [Int]! }
  type Part { name: String! }
  enum Kind { SMALL LARGE }
  input Filter { kind: Kind names: [String!]! }
`);

test('a field that is added to the schema and nowhere else does not compile', async (t) => {
  const folder = await checkout(t);
  const extended = text.replace(/(?<=\ntype (Job|Node|ApiKey|Query) \{\n)/g, '  unheardOf: String!\n');
  t.is(await errorsWith(folder, text), '');
  const errors = await errorsWith(folder, extended);
  for (const file of ['job-shape', 'shapes', 'root']) t.regex(errors, new RegExp(`graphql/${file}\\.ts.*'unheardOf'`));
});

test('no resolver returns an object without its type', (t) => {
  const files = globSync('gateway/graphql/**/*.ts', { cwd: root }).filter((file) => !file.includes('/gen/'));
  t.deepEqual(
    files.filter((file) => /\): (Promise<)?object\b|=> object\b/.test(readFileSync(join(root, file), 'utf8'))),
    [],
  );
});

test('no command of the tool writes an operation or its shapes by hand', (t) => {
  const files = globSync('{cli,client}/**/*.ts', { cwd: root }).filter((file) => !file.includes('/gen/'));
  t.deepEqual(
    files.filter((file) => /['"`](query|mutation)? ?(\([^)]*\) ?)?\{ ?\w+|\.query</.test(readFileSync(join(root, file), 'utf8'))),
    [],
  );
});

/** Operations with as many fields as there are endpoints, or devices; and the question which settings there are. */
const COMPOSED: ReadonlySet<string> = new Set(
  ['activity-lines.tsx', 'node-history.tsx', 'endpoint/setting-names.ts'].map((file) => `console/src/pages/${file}`),
);

test('no page of the console writes an operation or its shapes by hand', (t) => {
  const files = globSync('console/src/**/*.{ts,tsx}', { cwd: root }).filter((file) => !file.includes('/gen/') && !COMPOSED.has(file));
  t.deepEqual(
    files.filter((file) =>
      /['"`](query|mutation) ?(\([^)]*\) ?)?\{|['"`]\{ ?[a-z]\w* ?[({]|\bgraphql<\{/.test(readFileSync(join(root, file), 'utf8')),
    ),
    [],
  );
});

test('types of a schema: null, lists, enums, arguments with and without defaults', (t) => {
  const types = schemaTypes(small);
  for (const line of [
    'readonly note: string | null;',
    'readonly parts: readonly Part[] | null;',
    'readonly numbers: readonly (number | null)[];',
    "export type Kind = 'SMALL' | 'LARGE';",
    'readonly first: number | null;',
    'readonly filter?: Filter | null | undefined;',
    'readonly thing: (args: ThingArguments) => Promise<Thing | null>;',
  ])
    t.true(types.includes(line), line);
});

test('types of operations: fragments, aliases, variables with the inputs that they name', (t) => {
  const types = operationTypes(
    small,
    `fragment ThingRow on Thing { id kind parts { name } }
     query ListThings($filter: Filter) { all: things(filter: $filter) { ...ThingRow } first: thing(id: "1") { ...ThingRow note } }`,
  );
  for (const line of [
    'readonly all: readonly ThingRow[];',
    'readonly filter?: Filter | null | undefined;',
    'readonly names: readonly string[];',
    '\'query ListThings($filter:Filter){all:things(filter:$filter){id kind parts{name}}first:thing(id:"1"){id kind parts{name}note}}\'',
    'export const LIST_THINGS =',
  ])
    t.true(types.includes(line), line);
});

test('an operation that the schema does not permit is not generated', (t) => {
  t.throws(() => operationTypes(small, 'query A { things { id unheardOf } }'), { message: /Cannot query field "unheardOf"/ });
  t.throws(() => operationTypes(small, 'query A($id: Int!) { thing(id: $id) { id } }'), { message: /Variable "\$id" of type "Int!"/ });
});

/** A copy of what the gateway's resolvers need to compile. */
async function checkout(t: ExecutionContext): Promise<string> {
  const folder = await folderOf(t);
  for (const part of ['gateway', 'lib', 'proto']) await cp(join(root, part), join(folder, part), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const { compilerOptions } = JSON.parse(await readFile(join(root, 'tsconfig.json'), 'utf8')) as { compilerOptions: object };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['gateway/graphql/root.ts'] }));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  return folder;
}

/** What the compiler says of the resolvers with another schema. */
async function errorsWith(folder: string, definition: string): Promise<string> {
  await mkdir(join(folder, 'gateway/graphql/gen'), { recursive: true });
  await writeFile(join(folder, 'gateway/graphql/gen/schema.ts'), schemaTypes(buildSchema(definition)));
  return new Promise((resolve) =>
    execFile(join(root, 'node_modules/.bin/tsc'), ['--noEmit', '-p', folder], (_error, stdout) => resolve(stdout)),
  );
}
