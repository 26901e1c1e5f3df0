/**
 * A base image for tests, made of this machine's own files: no registry is needed. It has the machine's
 * Python, a shell, a few programs, and the libraries that they and Node need.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const cache = join(import.meta.dirname, '../../../node_modules/.cache/test-images');
const PROGRAMS = ['/bin/sh', '/bin/sleep'];
/** Of the standard library: what no worker needs. */
const LEFT_OUT = [
  'config-3*',
  'pydoc_data',
  'test',
  'tests',
  'idlelib',
  'lib2to3',
  'ensurepip',
  'tkinter',
  'turtledemo',
  'dist-packages',
  'site-packages',
  '__pycache__',
];

/** Path of the image's tar; made once for a version of Python and Node. Rejects where this machine lacks Python. */
export async function baseImageTar(): Promise<string> {
  const python = JSON.parse(
    (
      await run('python3', [
        '-c',
        'import json, os, sys, sysconfig; print(json.dumps([os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sys.version]))',
      ])
    ).stdout,
  ) as [string, string, string];
  const [executable, stdlib, version] = python;
  const key = createHash('sha256').update(`${version} ${process.version} ${LEFT_OUT.join()}`).digest('hex').slice(0, 16);
  const tar = join(cache, `${key}.tar`);
  if (await exists(tar)) return tar;
  await mkdir(cache, { recursive: true });
  const libraries = await librariesOf([executable, process.execPath, ...PROGRAMS, ...(await modulesOf(stdlib))]);
  const unfinished = `${tar}.${randomUUID()}`;
  try {
    // -h: what a link of this machine points to. The image has its files where this machine has them.
    const excluded = LEFT_OUT.map((name) => `--exclude=${name}`);
    const files = [executable, stdlib, ...PROGRAMS, ...libraries];
    await run('tar', ['-chPf', unfinished, ...excluded, `--transform=s,^${executable}$,/usr/bin/python3,`, ...files]);
    await rename(unfinished, tar);
  } finally {
    await rm(unfinished, { force: true });
  }
  return tar;
}

/** Every library that the loader finds for these files, and the loader, at the paths where it looks. */
export async function librariesOf(files: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  const { stdout } = await run('ldd', [...files]).catch((error: { stdout?: string }) => ({ stdout: error.stdout ?? '' }));
  for (const [path] of stdout.matchAll(/\/\S+(?= \()/g)) found.add(path);
  return [...found];
}

/** The compiled modules of the standard library. */
async function modulesOf(stdlib: string): Promise<string[]> {
  const { stdout } = await run('find', [join(stdlib, 'lib-dynload'), '-name', '*.so']);
  return stdout.split('\n').filter((line) => line !== '');
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
