/**
 * Generates the types of the GraphQL schema for the gateway, and those of the operations in the tool and the console.
 *
 *   node tools/graphql-types/generate.ts           writes the files
 *   node tools/graphql-types/generate.ts --check   writes nothing; names what differs and exits with 1
 */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

import { schema } from '../../gateway/graphql/schema.ts';
import { operationTypes } from './operation-types.ts';
import { schemaTypes } from './schema-types.ts';

const root = resolve(import.meta.dirname, '../..');
/** Folders with the operations of a client, in files *.graphql. */
const CLIENTS: readonly string[] = ['client/graphql', 'console/src/api/graphql'];

const files = new Map([['gateway/graphql/gen/schema.ts', schemaTypes(schema)]]);
for (const folder of CLIENTS) {
  const sources = globSync('*.graphql', { cwd: join(root, folder) }).sort();
  const text = sources.map((name) => readFileSync(join(root, folder, name), 'utf8')).join('\n');
  if (text !== '') files.set(`${folder}/gen/operations.ts`, operationTypes(schema, text));
}

for (const [file, content] of files) {
  const path = join(root, file);
  if (!process.argv.includes('--check')) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  } else if (committed(path) !== content) {
    process.stderr.write(`${file} is not that of the schema and the operations: run 'npm run generate'.\n`);
    process.exitCode = 1;
  }
}

function committed(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}
