/** Builds that the gateway reads to compare them: nobody's call stays open, and no archive exceeds its limits. */
import { Readable } from 'node:stream';
import { gzipSync, zstdCompressSync } from 'node:zlib';

import { Metadata } from '@grpc/grpc-js';
import test from 'ava';
import { Header } from 'tar';

import { BuildContents } from '../../gateway/blobs/build-contents.ts';
import { BuildUploads } from '../../gateway/blobs/builds.ts';
import { archiveContents } from '../../lib/archive-contents.ts';
import type { BlobServiceClient } from '../../proto/gen/capstan/v1/blobs.ts';

const DIGEST = 'a'.repeat(64);

/** An archive with one empty file. */
function archive(): Buffer {
  const blocks = Buffer.alloc(3 * 512);
  new Header({ path: 'app.ts', type: 'File', size: 0, mode: 0o644 }).encode(blocks, 0);
  return blocks;
}

test('the call for a build that is known already is cancelled', async (t) => {
  let opened = 0;
  let cancelled = 0;
  const get = (): unknown => {
    opened += 1;
    const messages = [{ part: { $case: 'size', value: 1 } }, { part: { $case: 'data', value: gzipSync(archive()) } }];
    return Object.assign(Readable.from(messages), { cancel: () => void (cancelled += 1) });
  };
  const builds = new BuildUploads({ get } as unknown as BlobServiceClient, 1_000);
  const contents = new BuildContents();
  const first = await contents.of(DIGEST, builds, new Metadata());
  t.deepEqual(Object.keys(first.files), ['app.ts']);
  t.is(await contents.of(DIGEST, builds, new Metadata()), first);
  t.deepEqual([opened, cancelled], [2, 2]);
});

test('an archive that is compressed twice is refused', async (t) => {
  for (const inner of [gzipSync(archive()), zstdCompressSync(archive())])
    await t.throwsAsync(archiveContents(Readable.from([gzipSync(inner)])), { code: 'INVALID_ARCHIVE' });
});
