/** The files of a base Debian, taken from this machine's own packages: what a bare host has, without Node.js, Python and tools. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Why there can be none here, for the title of a test that is skipped; empty where there can. */
export const whyNoBaseSystem: string = reason();

function reason(): string {
  if (process.getuid?.() !== 0) return ' (skipped: a file system of its own needs root)';
  if (!existsSync('/usr/bin/dpkg-query')) return ' (skipped: this is no Debian)';
  if (!existsSync('/usr/sbin/ip') && !existsSync('/sbin/ip')) return ' (skipped: iproute2 is not installed)';
  return '';
}

/** Copies the files of the required packages and of apt, with those of what they depend on, into a folder that a process can have as its root. */
export async function makeBaseSystem(folder: string): Promise<void> {
  const packages = closure(['apt', ...required()]);
  const listed = execFileSync('dpkg-query', ['--listfiles', ...packages], { encoding: 'utf8', maxBuffer: 64 << 20 }).split('\n');
  // Many packages name files in /bin and /lib, which are links into /usr.
  const wanted = listed
    .filter((path) => path.startsWith('/') && !/^\/usr\/share\/(?:doc|man|locale|info|zoneinfo)\//.test(path))
    .map((path) => path.replace(/^\/(?=(?:bin|sbin|lib|lib64)\/)/, '/usr/').slice(1));
  const paths = [...new Set([...wanted, 'bin', 'sbin', 'lib', 'lib64'])].filter((path) => path !== '.' && existsSync(`/${path}`));
  const archive = join(folder, 'base.tar');
  execFileSync('tar', ['-C', '/', '-cf', archive, '--no-recursion', '-T', '-'], { input: paths.join('\n') });
  execFileSync('tar', ['-C', folder, '-xf', archive]);
  await rm(archive);
  for (const name of ['dev', 'proc', 'tmp', 'root', 'run', 'etc']) await mkdir(join(folder, name), { recursive: true });
  await writeFile(join(folder, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n');
  await writeFile(join(folder, 'etc/group'), 'root:x:0:\nnogroup:x:65534:\n');
  await writeFile(join(folder, 'etc/hosts'), '127.0.0.1 localhost\n');
  execFileSync('ldconfig', ['-r', folder]);
}

function required(): string[] {
  const lines = execFileSync('dpkg-query', ['--show', '--showformat', '${Package} ${Essential} ${Priority}\\n'], { encoding: 'utf8' });
  return lines
    .split('\n')
    .filter((line) => / yes | required$/.test(line))
    .map((line) => line.split(' ')[0] ?? '');
}

function closure(names: readonly string[]): string[] {
  const lines = execFileSync('dpkg-query', ['--show', '--showformat', '${Package}\\t${Pre-Depends}, ${Depends}\\n'], { encoding: 'utf8' });
  const needs = new Map(
    lines.split('\n').map((line) => {
      const [name = '', depends = ''] = line.split('\t');
      return [name, depends.split(/[,|]/).map((each) => /^[^ (:]+/.exec(each.trim())?.[0] ?? '')];
    }),
  );
  const found = new Set(names);
  for (const name of found) for (const need of needs.get(name) ?? []) if (needs.has(need)) found.add(need);
  return [...found].filter((name) => name !== '');
}
