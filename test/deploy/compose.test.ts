/** The Compose file: its settings exist, and its profile adds what several schedulers need. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { folderOf } from '../support/folder.ts';

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
  const files = ['compose.yaml', 'sandbox.yaml', 'users.yaml', 'cluster.env'];
  const text = (await Promise.all(files.map((name) => read(`deploy/compose/${name}`)))).join('');
  const named = [...new Set([...text.matchAll(/\bCAPSTAN_[A-Z0-9_]+\b/g)].map(([name]) => name))];
  t.deepEqual(
    named.filter((name) => !known.includes(`\`${name}\``) && !ofCompose.includes(name)),
    [],
  );
});

test('one scheduler runs by default, and the profile adds a second one with its stores', async (t) => {
  const found = await services();
  t.deepEqual([...found.keys()], ['scheduler', 'tokens', 'gateway', 'agent', 'scheduler-2', 'postgres', 'blobs']);
  for (const [name, text] of found) t.is(text.includes('profiles: [cluster]'), ['scheduler-2', 'postgres', 'blobs'].includes(name), name);
  const gateway = found.get('gateway') ?? '';
  t.true(gateway.includes('127.0.0.1'), 'the API is published on loopback');
});

/** Volumes that a service mounts, with their place. */
function mountsOf(text: string): string[] {
  return [...text.matchAll(/(?:^ {6}- |[[ ]')([a-z0-9-]+:\/[^\s',]+)/gm)].map(([, mount = '']) => mount);
}

test('where users’ code runs, the join token alone is mounted of what the scheduler keeps', async (t) => {
  const found = await services();
  t.deepEqual(mountsOf(found.get('agent') ?? ''), ['agent:/var/lib/capstan', 'join-token:/var/lib/capstan-tokens/join:ro']);
  t.deepEqual(mountsOf(found.get('gateway') ?? ''), ['gateway-token:/var/lib/capstan-tokens/gateway:ro']);
  const withData = [...found].filter(([, text]) => mountsOf(text).some((mount) => mount.startsWith('scheduler:'))).map(([name]) => name);
  t.deepEqual(withData, ['scheduler', 'tokens', 'scheduler-2']);
  for (const name of ['gateway', 'agent']) t.regex(found.get(name) ?? '', /tokens: \{ condition: service_completed_successfully \}/);
});

test('the service of the tokens copies them, and again when they are renewed', async (t) => {
  const [, script = ''] = /- -euc\n {6}- \|\n((?: {8}.*\n)+)/.exec((await services()).get('tokens') ?? '') ?? [];
  const data = await folderOf(t, { 'secrets/gateway-token': 'g1', 'secrets/join-token': 'j1', 'secrets/master-key': 'm' });
  const tokens = await folderOf(t);
  await Promise.all(['gateway', 'join'].map((name) => mkdir(join(tokens, name))));
  const copy = (): unknown =>
    promisify(execFile)('sh', ['-euc', script.replaceAll('$$', '$')], {
      env: { ...process.env, CAPSTAN_DATA_DIR: data, TOKENS_DIR: tokens },
    });
  await copy();
  await writeFile(join(data, 'secrets/join-token'), 'j2');
  await copy();
  t.is(await readFile(join(tokens, 'join/join-token'), 'utf8'), 'j2');
  t.is(await readFile(join(tokens, 'gateway/gateway-token'), 'utf8'), 'g1');
  t.is((await stat(join(tokens, 'join/join-token'))).mode & 0o777, 0o400);
  t.deepEqual(await readdir(join(tokens, 'join')), ['join-token']);
});

test('the image has the folders of the tokens, and what sandboxes need', async (t) => {
  const image = await read('deploy/image/Containerfile');
  for (const name of ['gateway', 'join']) t.true(image.includes(`/var/lib/capstan-tokens/${name}`), name);
  for (const name of ['bubblewrap', 'passt', 'nftables']) t.regex(image, new RegExp(`^ARG PACKAGES=.*\\b${name}\\b`, 'm'));
});
