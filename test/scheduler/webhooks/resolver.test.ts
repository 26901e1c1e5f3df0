import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { listedIn, systemResolver } from '../../../scheduler/webhooks/resolver.ts';
import { folderOf } from '../../support/folder.ts';

test('the hosts file comes first', async (t) => {
  const file = join(await folderOf(t), 'hosts');
  await writeFile(
    file,
    '# a comment\n10.0.0.7\treceiver.internal  Other # 10.0.0.8 not.listed\n\nfd00::7 receiver.internal\nnot-an-address bad.internal\n',
  );
  const resolve = systemResolver(file);
  t.deepEqual(await resolve('receiver.internal'), ['10.0.0.7', 'fd00::7']);
  t.deepEqual(await resolve('other'), ['10.0.0.7']);
  t.deepEqual(listedIn('10.0.0.1 a', 'not.listed'), []);
});

test('localhost is this host, with or without a hosts file, and no name server is asked', async (t) => {
  const resolve = systemResolver('/nonexistent/hosts');
  t.deepEqual(await resolve('localhost'), ['127.0.0.1', '::1']);
  t.deepEqual(await resolve('x.localhost'), ['127.0.0.1', '::1']);
});
