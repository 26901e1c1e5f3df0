/** The sources of an earlier version, taken from the history: what a service ran before it is upgraded. */
import { execFile } from 'node:child_process';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

/** The sources under test. */
export const CURRENT: Version = { name: 'this version', tree: root };

export interface Version {
  readonly name: string;
  /** The folder of its sources. */
  readonly tree: string;
}

/** A commit of the main branch that people run. */
export interface Earlier {
  readonly commit: string;
  readonly name: string;
  /** Whether its scheduler can have standbys: then docs/upgrade.md has gateways and agents upgraded before it. */
  readonly hasStandbys: boolean;
}

export const EARLIER: readonly Earlier[] = [
  // Before the core, the messages and the tool were rewritten under new names.
  { commit: 'acf467e947c49ebff5655a6cfad176e2b1c724a2', name: '0.1.0 before its standard names', hasStandbys: false },
  // With several schedulers for the first time.
  { commit: '3ca4d1fc49d739e009418ddc1e1947965a3b54b7', name: '0.1.0 with standard names', hasStandbys: true },
];

/** Returns the reason why a commit cannot be had; empty when it can. */
export async function whyMissing({ commit }: Earlier): Promise<string> {
  try {
    await run('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root });
    return '';
  } catch {
    return `the history of this clone ends after ${commit.slice(0, 7)}`;
  }
}

interface Packages {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

/** Writes the sources of a commit into a folder that goes with the test. They run with the packages installed here. */
export async function checkOut(t: ExecutionContext, { commit, name }: Earlier): Promise<Version> {
  const tree = await folderOf(t);
  await run('sh', ['-c', 'git archive "$1" | tar --extract --directory "$2"', 'sh', commit, tree], { cwd: root });
  await symlink(join(root, 'node_modules'), join(tree, 'node_modules'));
  const read = async (folder: string): Promise<Packages> => JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Packages;
  const [own, present] = [await read(tree), await read(root)];
  const now = { ...present.devDependencies, ...present.dependencies };
  const changed = Object.entries(own.dependencies).filter(([each, range]) => now[each] !== range);
  if (changed.length > 0) throw new Error(`${commit} needs other packages than are installed: ${changed.map(String).join(' ')}`);
  return { name, tree };
}
