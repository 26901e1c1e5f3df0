/** An image for workers in containers, made of this machine's own files: its python3, what that and Node need, and torch where it fits. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, rm, statfs, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import { importImage, type EngineInfo } from './engine.ts';

const run = promisify(execFile);

const PROGRAMS = ['/bin/sh', '/bin/sleep'];
/** Of Python: what no worker needs. */
const LEFT_OUT = [
  'config-3*',
  'test',
  'tests',
  'idlelib',
  'lib2to3',
  'ensurepip',
  'tkinter',
  'dist-packages',
  'site-packages',
  '__pycache__',
];
/** The driver's libraries come with the GPU, not with the image. */
const DRIVERS = /\/lib(?:cuda|nvidia-[^/]*)\.so/;
/** Most bytes of the folder of torch, and of the disk that stays free beside it. */
const MAX_TORCH_BYTES = 12e9;
const SPARE_BYTES = 4e9;
const SMALL_MS = 60_000;
const LIST_MS = 30_000;

export interface ImageSpec {
  readonly engine: EngineInfo;
  readonly name: string;
  /** An empty folder. */
  readonly work: string;
  /** The folder with torch and what it loads; empty without torch. */
  readonly torchFolder: string;
  /** For the import with torch, ms. */
  readonly torchMs: number;
  /** Cancels an import. */
  readonly signal?: AbortSignal;
}

/** Makes the image. Returns why it has no torch; empty where it has. Rejects where this machine lacks what is needed. */
export async function makeImage(spec: ImageSpec): Promise<string> {
  const { engine, name, work, torchFolder, torchMs, signal } = spec;
  const within = (limitMs: number): AbortSignal =>
    AbortSignal.any([AbortSignal.timeout(limitMs), ...(signal === undefined ? [] : [signal])]);
  const without = await whyNoTorch(spec);
  const files = await pythonFiles(work);
  if (without === '') {
    try {
      const torch = [
        torchFolder,
        ...(await librariesOf(await compiledOf(torchFolder))).filter((path) => !path.startsWith(`${torchFolder}/`)),
      ];
      await send(engine, name, { ...files, more: torch }, within(torchMs));
      return '';
    } catch (error) {
      await send(engine, name, { ...files, more: [] }, within(SMALL_MS));
      return `torch could not be put into the image: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  await send(engine, name, { ...files, more: [] }, within(SMALL_MS));
  return without;
}

async function whyNoTorch({ torchFolder, torchMs, work }: ImageSpec): Promise<string> {
  if (torchFolder === '') return 'no torch on this machine';
  if (torchMs < SMALL_MS) return 'no time is left for an image with torch';
  const { stdout } = await run('du', ['-sLb', torchFolder], { timeout: LIST_MS }).catch(() => ({ stdout: '' }));
  const bytes = Number(/^\d+/.exec(stdout)?.[0] ?? Number.NaN);
  if (!(bytes <= MAX_TORCH_BYTES)) return `the folder of torch is too large for an image: ${stdout.trim()}`;
  const { bavail, bsize } = await statfs(work);
  return bavail * bsize > bytes + SPARE_BYTES ? '' : 'the disk is too small for an image with torch';
}

interface Files {
  /** Of Python's own, without LEFT_OUT. */
  readonly python: readonly string[];
  /** A folder whose files go to the root. */
  readonly stage: string;
}

async function pythonFiles(work: string): Promise<Files> {
  const script = 'import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sep="\\n")';
  const { stdout } = await run('python3', ['-c', script], { timeout: LIST_MS });
  const [executable = '', stdlib = ''] = stdout.trim().split('\n');
  const modules = await compiledOf(join(stdlib, 'lib-dynload'));
  const libraries = await librariesOf([executable, process.execPath, ...PROGRAMS, ...modules]);
  const stage = join(work, 'image');
  await rm(stage, { recursive: true, force: true });
  await mkdir(join(stage, 'usr/bin'), { recursive: true });
  await mkdir(join(stage, 'tmp'));
  await chmod(join(stage, 'tmp'), 0o1777);
  await mkdir(join(stage, 'etc'));
  // Not a copy at another path: Python finds its modules by its own path.
  if (executable !== '/usr/bin/python3')
    await writeFile(join(stage, 'usr/bin/python3'), `#!/bin/sh\nexec '${executable}' "$@"\n`, { mode: 0o755 });
  return { python: [executable, stdlib, ...PROGRAMS, ...libraries], stage };
}

/** Files of a folder that the loader loads. */
async function compiledOf(folder: string): Promise<string[]> {
  const { stdout } = await run('find', ['-L', folder, '-name', '*.so*', '-type', 'f', '-size', '+0'], {
    timeout: LIST_MS,
    maxBuffer: 64 << 20,
  });
  return stdout.split('\n').filter((line) => /\.so(?:\.|$)/.test(basename(line)));
}

/** Every library that the loader finds for these files, and the loader, at the paths where it looks. */
async function librariesOf(files: readonly string[]): Promise<string[]> {
  const options = { timeout: LIST_MS, maxBuffer: 64 << 20 };
  const { stdout } = await run('ldd', [...files], options).catch((error: unknown) => ({
    stdout: (error as { stdout?: string }).stdout ?? '',
  }));
  const found = new Set([...stdout.matchAll(/\/\S+(?= \()/g)].map(([path]) => path));
  return [...found].filter((path) => !DRIVERS.test(path));
}

/** Streams the files to the engine. Links are followed: the image has each file where this machine has it. */
async function send(
  engine: EngineInfo,
  name: string,
  { python, stage, more }: Files & { readonly more: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  // Torch can be below Python's own folder.
  const excluded = LEFT_OUT.flatMap((each) => (more.length > 0 && each.endsWith('-packages') ? [] : [`--exclude=${each}`]));
  const args = ['-chPf', '-', ...excluded, ...python, ...more, '-C', stage, 'usr', 'tmp', 'etc'];
  const tar = spawn('tar', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  tar.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-300)));
  const ended = once(tar, 'exit');
  try {
    await importImage(engine, name, tar.stdout, signal);
    const [code] = (await ended) as [number | null];
    // 1: a file has changed or vanished while it was read.
    if (code !== 0 && code !== 1) throw new Error(`tar: ${said}`);
  } finally {
    tar.kill('SIGKILL');
  }
}
