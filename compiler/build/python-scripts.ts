/**
 * Makes the programs of installed Python packages (`python_packages/bin/uvicorn`) run wherever the build is unpacked.
 * Installers write the path of this machine's Python into their first line. It is replaced by one that looks Python up
 * on PATH and lets it, and the programs that it starts, find the packages beside the script.
 */
import { open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { moveUnsynced } from '../../lib/durable.ts';

/** Folder of programs in a folder of installed packages. */
export const SCRIPTS = 'bin';
const SHEBANG = Buffer.from('#!');
/** `#!/path/python3`, also with an option: the usual first line. */
const PYTHON_LINE = /^#![^\n]*\bpython[\d.]*w?(?: [^\n]*)?\n/i;
/** The first lines where the path of Python is too long for a system's limit, or has a space. */
const SHELL_LINES = /^#!\/bin\/sh\n'''exec'[^\n]*\n' '''\n/;

/**
 * A shell reads three lines and replaces itself by Python, which reads the second and third as a string. An image may
 * have `python` only.
 */
export const RELOCATABLE = `#!/bin/sh
'''exec' env PYTHONPATH="$(dirname "$(dirname "$(realpath "$0")")")\${PYTHONPATH:+:$PYTHONPATH}" "$(command -v python3 || command -v python)" "$0" "$@"
' '''
`;

/** Rewrites the scripts of a folder of installed packages; other programs remain as they are. */
export async function relocateScripts(packages: string): Promise<void> {
  const folder = join(packages, SCRIPTS);
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []); // no package has a program
  for (const entry of entries) if (entry.isFile()) await relocateScript(join(folder, entry.name));
}

async function relocateScript(path: string): Promise<void> {
  if (!(await beginsWithShebang(path))) return;
  const text = await readFile(path, 'latin1'); // every byte remains
  const moved = text.replace(PYTHON_LINE.test(text) ? PYTHON_LINE : SHELL_LINES, () => RELOCATABLE);
  if (moved === text) return;
  // A new file: the installer's may be a hard link into its cache.
  const fresh = `${path}.new`;
  await writeFile(fresh, moved, { encoding: 'latin1', mode: 0o755 });
  await moveUnsynced(fresh, path);
}

async function beginsWithShebang(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(SHEBANG.length), 0, SHEBANG.length, 0);
    return buffer.equals(SHEBANG);
  } finally {
    await file.close();
  }
}

/**
 * Removes what is valid on this machine only, or records where a package came from: the lists of files have digests of
 * the scripts as the installer wrote them.
 */
export async function removeTraces(packages: string): Promise<void> {
  await rm(join(packages, '.lock'), { force: true });
  for (const entry of await readdir(packages, { withFileTypes: true })) {
    if (!entry.isDirectory() || !entry.name.endsWith('.dist-info')) continue;
    const folder = join(packages, entry.name);
    for (const name of ['direct_url.json', 'REQUESTED', 'INSTALLER', 'uv_cache.json', 'uv_build.json'])
      await rm(join(folder, name), { force: true });
    await removeScriptLines(join(folder, 'RECORD'));
  }
}

async function removeScriptLines(record: string): Promise<void> {
  const text = await readFile(record, 'utf8').catch(() => ''); // optional in old packages
  const kept = text
    .split('\n')
    .filter(
      (line) => !/^"?(\.\.\/\.\.\/)?bin\//.test(line) && !/\.dist-info\/(direct_url\.json|REQUESTED|INSTALLER|uv_\w+\.json),/.test(line),
    )
    .join('\n');
  if (kept === text) return;
  const fresh = `${record}.new`;
  await writeFile(fresh, kept);
  await moveUnsynced(fresh, record);
}
