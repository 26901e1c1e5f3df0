/**
 * The working folder of a worker. Files that a worker writes under a relative path reach no other worker, and the
 * build's files have the same relative paths as in the build. Folders of the build become folders and files become
 * symbolic links, so a new file beside them stays here. capstan_bootstrap/work_folder.py is the same for Python. This
 * module also runs in hosts, so it imports nothing of the agent.
 */
import { mkdirSync, readdirSync, symlinkSync, type Dirent } from 'node:fs';
import { join } from 'node:path';

/** Most entries created, beside those of the build's own root; further folders are linked as a whole. */
const MAX_ENTRIES = 2_000;
/** Folders of packages and tools: many files, and nobody writes beside them. */
export const WHOLE = /^(?:\..*|node_modules|python_packages|__pycache__)$/;

/** Creates the folder if it is missing and fills it from the build. Throws file system errors. */
export function fillWorkFolder(folder: string, build: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let left = MAX_ENTRIES;
  const open: (readonly [from: string, to: string, entries: readonly Dirent[]])[] = [[build, folder, entriesOf(build)]];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const [from, to, entries] = next;
    for (const entry of entries) {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      const inner = entry.isDirectory() && !WHOLE.test(entry.name) ? entriesOf(source) : undefined;
      if (inner === undefined || inner.length > left) {
        symlinkSync(source, target);
        continue;
      }
      left -= inner.length;
      mkdirSync(target, { mode: 0o700 });
      open.push([source, target, inner]);
    }
  }
}

/** Enters the working folder of this process; without one, or if it cannot be created, uses the build. */
export function enterWorkFolder(folder: string, build: string): void {
  if (folder !== '') {
    try {
      fillWorkFolder(folder, build);
      process.chdir(folder);
      return;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      process.stderr.write(`the worker has no working folder of its own (${reason}); it runs in the folder of the build\n`);
    }
  }
  process.chdir(build);
}

function entriesOf(folder: string): readonly Dirent[] {
  return readdirSync(folder, { withFileTypes: true });
}
