/** The Compose file: its settings exist, and its profile adds what several schedulers need. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

const root = join(import.meta.dirname, '../..');
const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

/** Text of each service. */
async function services(): Promise<ReadonlyMap<string, string>> {
  const [, text = ''] = /^services:\n(.*?)^networks:/ms.exec(await read('deploy/compose/compose.yaml')) ?? [];
  return new Map(
    text.split(/^(?= {2}[a-z])/m).flatMap((part) => [...part.matchAll(/^ {2}([a-z0-9-]+):/g)].map(([, name = '']) => [name, part])),
  );
}

test('each setting of the Compose file exists', async (t) => {
  const known = await read('docs/configuration.md');
  const ofCompose = ['CAPSTAN_IMAGE', 'CAPSTAN_HTTP_BIND', 'CAPSTAN_PGPASS'];
  const text = `${await read('deploy/compose/compose.yaml')}${await read('deploy/compose/cluster.env')}`;
  const named = [...new Set([...text.matchAll(/\bCAPSTAN_[A-Z0-9_]+\b/g)].map(([name]) => name))];
  t.deepEqual(
    named.filter((name) => !known.includes(`\`${name}\``) && !ofCompose.includes(name)),
    [],
  );
});

test('one scheduler runs by default, and the profile adds a second one with its stores', async (t) => {
  const found = await services();
  t.deepEqual([...found.keys()], ['scheduler', 'gateway', 'agent', 'scheduler-2', 'postgres', 'blobs']);
  for (const [name, text] of found) t.is(text.includes('profiles: [cluster]'), ['scheduler-2', 'postgres', 'blobs'].includes(name), name);
  const gateway = found.get('gateway') ?? '';
  t.true(gateway.includes('127.0.0.1'), 'the API is published on loopback');
});
