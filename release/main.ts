/** Makes a release: `npm run release [-- <folder>]`, by default in `dist/`. The same commit gives the same files. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { makeToolPackage } from './tool-package.ts';

const root = resolve(import.meta.dirname, '..');
const folder = resolve(process.argv[2] ?? join(root, 'dist'));
const { stdout } = await promisify(execFile)('git', ['log', '-1', '--format=%ct'], { cwd: root });
const time = new Date(Number(stdout) * 1000);

await mkdir(folder, { recursive: true });
const scratch = await mkdtemp(join(tmpdir(), 'capstan-release-'));
try {
  console.error(await makeToolPackage(root, folder, join(scratch, 'tool'), time));
} finally {
  await rm(scratch, { recursive: true, force: true });
}
