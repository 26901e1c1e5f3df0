/**
 * The bootstrap: our own programs that run a worker's host, staged as plain JavaScript (and Python)
 * in a folder of their own. Stripping types is what most of a host's start is made of (0.5 s of
 * processor time against 0.15 s, threads included), and every worker and every spare would do it
 * anew: a compile cache that hosts write would hold user code as well, and what one worker writes
 * there the next one would run. Containers mount the same folder.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { isErrno } from '../../../lib/to-error.ts';
import { makeReadable } from './readable.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
/** Where the installation keeps what can be made anew. */
const SHARED = join(ROOT, 'node_modules/.cache/bootstrap');
const STRIP = fileURLToPath(new URL('strip-types.ts', import.meta.url));
/** What our programs are made of. */
const SOURCES = ['agent/runtimes', 'lib'];
const LEFT_OUT = /(^|\/)(__pycache__|gen)(\/|$)/;

/**
 * Stages the bootstrap unless it is there: its name says what it was made of, so an agent's next start
 * and other agents of one installation find it. It lies with the installation, and in `own` where that
 * may not be written to; `own` keeps no older one. Every user may read it, whatever this process's
 * umask: a container's may be any. Gives its path; rejects when neither folder takes it.
 */
export async function stageBootstrap(own: string, shared: string = SHARED): Promise<string> {
  const files = await sources();
  const name = await digest(files);
  try {
    return await stageIn(shared, name, files);
  } catch {
    // An installation that this user cannot write to is the rule where a service manager starts the agent.
    const folder = await stageIn(own, name, files);
    const others = (await readdir(own)).filter((other) => other !== name);
    await Promise.all(others.map((other) => rm(join(own, other), { recursive: true, force: true })));
    return folder;
  }
}

async function stageIn(parent: string, name: string, files: readonly string[]): Promise<string> {
  const folder = join(parent, name);
  if ((await stat(folder).catch(() => undefined))?.isDirectory() === true) return folder;
  const draft = join(parent, `.${name}-${randomUUID()}`);
  try {
    await mkdir(draft, { recursive: true, mode: 0o700 });
    await fill(draft, files);
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (!isErrno(error, 'ENOTEMPTY', 'EEXIST')) throw error; // taken: another agent was faster
  }
  return folder;
}

/** Paths of our sources below ROOT, in order. */
async function sources(): Promise<string[]> {
  const lists = await Promise.all(
    SOURCES.map(async (top) => {
      const entries = await readdir(join(ROOT, top), { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length));
    }),
  );
  return lists
    .flat()
    .filter((path) => !LEFT_OUT.test(path) && /\.(ts|py)$/.test(path))
    .toSorted();
}

async function digest(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(`${process.version}\0${packageFolder('acorn')}\0${packageFolder('piscina')}\0`);
  const texts = await Promise.all(files.map(async (path) => ({ path, text: await readFile(join(ROOT, path)) })));
  for (const { path, text } of texts) hash.update(`${path}\0${text.length}\0`).update(text);
  return hash.digest('hex').slice(0, 16);
}

async function fill(folder: string, files: readonly string[]): Promise<void> {
  await Promise.all(
    files.map(async (path) => {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await cp(join(ROOT, path), join(folder, path));
    }),
  );
  // In a process of its own: what strips types stays in the memory of the process that used it, 50 MB.
  await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', STRIP, folder]);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}\n');
  // All hosts read parameters of functions; a container gets no other package.
  await cp(packageFolder('acorn'), join(folder, 'node_modules/acorn'), { recursive: true, dereference: true });
  // The thread host's own. It is never in a container, and has dependencies: these are found from where it really lies.
  await symlink(packageFolder('piscina'), join(folder, 'node_modules/piscina'));
  await makeReadable(folder);
}

/** The installed package's folder: its entry point lies one below it. */
function packageFolder(name: 'acorn' | 'piscina'): string {
  return dirname(dirname(fileURLToPath(import.meta.resolve(name))));
}
