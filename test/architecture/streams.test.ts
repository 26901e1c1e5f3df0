/** Every gRPC stream is read through lib/stream-guard.ts: an exception in a data event would end the process. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { sourceFiles } from './imports.ts';

const root = join(import.meta.dirname, '../..');
const STREAM = /\b(?:Client|Server)(?:Duplex|Readable)Stream\b/;
const LISTENER = /\.(?:on|once|addListener)\(\s*'(?:data|readable)'/;

const breaks = (source: string): boolean => STREAM.test(source) && LISTENER.test(source);

test('no part listens to the data of a gRPC stream by itself', (t) => {
  const files = sourceFiles().filter((file) => !file.startsWith('proto/gen/') && file !== 'lib/stream-guard.ts');
  t.deepEqual(
    files.filter((file) => breaks(readFileSync(join(root, file), 'utf8'))),
    [],
  );
  t.true(breaks("const call: ClientDuplexStream<A, B> = open();\ncall.on('data', (message) => handle(message));"));
});
