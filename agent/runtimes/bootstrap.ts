/**
 * The bootstrap: our own programs that run a worker's host, staged as plain JavaScript (and Python) in a separate
 * folder. Stripping types takes most of a host's start (0.5 s of processor time against 0.15 s, threads included), and
 * every worker and every spare would repeat it. A compile cache written by hosts would also hold user code, and the
 * next worker would run what another wrote there. Containers mount the same folder.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { chmod, cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { moveUnsynced } from '../../lib/durable.ts';
import { isErrno } from '../../lib/to-error.ts';
import { linkProgram } from './link-program.ts';
import { makeReadable } from './readable.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Where the installation keeps files that can be regenerated. */
export const WITH_INSTALLATION = join(ROOT, 'node_modules/.cache/bootstrap');
const STRIP = fileURLToPath(new URL('./strip-types.ts', import.meta.url));
/** The sources of our programs. */
const SOURCES = ['agent/runtimes', 'lib'];
/** The reader of an account, one script, and what it is made of; in the bootstrap. */
export const READER = 'agent/runtimes/reading/reader.cjs';
const READER_MAIN = 'agent/runtimes/reading/main.js';
const LEFT_OUT = /(^|\/)(__pycache__|gen)(\/|$)/;

/**
 * Stages the bootstrap unless it exists. Its name depends on its sources, so the next start of an agent and other
 * agents of the installation find it. It is stored in the first folder of `shared` that is writable, by default with the
 * installation, else in `own`, which keeps no older one. Every user may read it, whatever this process's umask: a
 * container may run as any user. Returns its path; rejects when no folder is writable.
 */
export async function stageBootstrap(own: string, shared: readonly string[] = [WITH_INSTALLATION]): Promise<string> {
  const files = await sources();
  const name = await digest(files);
  for (const parent of shared) {
    // Under a service manager the agent's user usually cannot write to the installation.
    const folder = await stageIn(parent, name, files).catch(() => undefined);
    if (folder !== undefined) return folder;
  }
  const folder = await stageIn(own, name, files);
  const others = (await readdir(own)).filter((other) => other !== name);
  await Promise.all(others.map((other) => rm(join(own, other), { recursive: true, force: true })));
  return folder;
}

async function stageIn(parent: string, name: string, files: readonly string[]): Promise<string> {
  const folder = join(parent, name);
  if ((await stat(folder).catch(() => undefined))?.isDirectory() === true) return folder;
  const draft = join(parent, `.${name}-${randomUUID()}`);
  try {
    await mkdir(parent, { recursive: true });
    // A worker may have another user id than the agent, whose umask is often 0077.
    await chmod(parent, 0o755);
    await mkdir(draft, { mode: 0o700 });
    await fill(draft, files);
    await moveUnsynced(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (!isErrno(error, 'ENOTEMPTY', 'EEXIST')) throw error; // already exists: another agent was faster
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
    .filter((path) => !LEFT_OUT.test(path) && /\.(ts|c?js|py)$/.test(path))
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
  // An installed package holds JavaScript. In a separate process: the type stripper keeps 50 MB in the memory of the process that used it.
  if (files.some((path) => path.endsWith('.ts')))
    await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', STRIP, folder]);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}\n');
  await writeFile(join(folder, READER), await linkProgram(join(folder, READER_MAIN)));
  // All hosts read function parameters; a container gets no other package.
  await cp(packageFolder('acorn'), join(folder, 'node_modules/acorn'), { recursive: true, dereference: true });
  // The thread host's own sources. It never runs in a container, and its dependencies are resolved from its real
  // location.
  await symlink(packageFolder('piscina'), join(folder, 'node_modules/piscina'));
  await makeReadable(folder);
}

/** What the thread host reads outside of the bootstrap. */
export const THREAD_HOST_READS: readonly string[] = [packageFolder('piscina')];

/** Folder of the installed package: its entry point is one level below. */
function packageFolder(name: 'acorn' | 'piscina'): string {
  return dirname(dirname(fileURLToPath(import.meta.resolve(name))));
}
