/** Run on a file system of 1 MiB: puts a body that does not fit, then one that does; prints what came of it. */
import { CapstanError } from '../../../lib/errors.ts';
import { FileBlobStore } from '../../../scheduler/blobs/file-store.ts';
import { filesIn, pieces, someBytes } from './blobs.ts';

const root = process.argv[2] ?? '';
const store = await FileBlobStore.open(root);
const put = (size: number) => store.put({ kind: 'body', size }, pieces(someBytes(size).bytes));

const refusal = await put(4_000_000).then(
  () => null,
  (error: unknown) => (error instanceof CapstanError ? { code: error.code, message: error.message } : String(error)),
);
const files = filesIn(root);
const { id } = await put(100_000);
console.log(JSON.stringify({ refusal, files, afterwards: id.startsWith('body/') }));
