/** Selects the files of a folder for the artifact: all but those that ignore files, their names or the rules below exclude. */
import { lstat, readdir, readlink, realpath } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { isErrno } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import { hasPrivateKey, isCredentialName } from './credential-files.ts';
import { IgnoreFile, type Verdict } from './ignore-file.ts';
import { MANIFEST_NAME } from './manifest.ts';

/** Never in an artifact: the tool's own output, version control, compiled Python, data and secrets. */
const NEVER = /^(\.git|\.tool|\.capstan|__pycache__|\.env([-._].+)?)$/i;
const NODE_MODULES = 'node_modules';
/** The project's own rules for the artifact; a project that comes from Flash has the other one. */
export const IGNORE_FILE = '.toolignore';
export const FORMER_IGNORE_FILE = '.flashignore';
/** Files of which a Python project has one. */
const PYTHON_PROJECT = new Set(['pyproject.toml', 'setup.py', 'setup.cfg']);
const EGG_INFO = '.egg-info';
/** Everything that setuptools writes into the folder `build`. */
const SETUPTOOLS_BUILD = /^(lib|lib\..+|bdist\..+|temp\..+|scripts-.+)$/;
/** Folders of installed packages, which the runtimes find by these names. */
const dependencies = [NODE_MODULES, 'python_packages'];

export interface FileEntry {
  /** Relative to the folder, with forward slashes. */
  readonly path: string;
  readonly stat: Stats;
}

export interface FileList {
  /** Files and links, ordered by path. */
  readonly entries: readonly FileEntry[];
  /** Files that were left out without a rule of the user, for messages. */
  readonly leftOut: readonly string[];
}

/** The rules of the ignore files from the folder down to a subfolder. */
interface Rules {
  /** Nearest first: a rule nearer to the file overrides one further up. */
  readonly git: readonly { readonly base: string; readonly rules: IgnoreFile }[];
  readonly tool: IgnoreFile;
  /** Below a folder that `.gitignore` excludes: only what the tool's rules include is listed. */
  readonly isOutside: boolean;
}

/**
 * Lists the folder. `.gitignore` files apply to their subtree, `.toolignore` to the whole folder, and it may include again
 * what these exclude. Installed
 * dependencies are included whatever `.gitignore` says, because a node installs nothing. `skip` excludes files by name
 * and path, `secrets` the files of variables at these paths unless `.toolignore` includes them.
 * @throws CapstanError INVALID_ARCHIVE for a link that leads out of the folder.
 */
export async function listFiles(
  folder: string,
  options: { readonly skip?: (name: string, path: string) => boolean; readonly secrets?: readonly string[] } = {},
): Promise<FileList> {
  const root = await realpath(folder);
  const entries: FileEntry[] = [];
  const leftOut: string[] = [];
  /** Link → its target, relative to the folder. */
  const links = new Map<string, string>();
  // Rules of the tool come last: they decide.
  const own = [await readText(root, FORMER_IGNORE_FILE), await readText(root, IGNORE_FILE)].map((text) => text ?? '').join('\n');
  await walk('', { git: [], tool: new IgnoreFile(own), isOutside: false });
  return { entries: withTargets().sort((a, b) => (a.path < b.path ? -1 : 1)), leftOut };

  /** Without links to what is left out: hosts refuse a broken link. */
  function withTargets(): FileEntry[] {
    const present = new Set<string>(['']);
    for (const { path } of entries) for (let at = path; at !== '' && at !== '.' && !present.has(at); at = dirname(at)) present.add(at);
    return entries.filter(({ path }) => {
      const target = links.get(path);
      if (target === undefined || present.has(target) || isDependency(target)) return true;
      leftOut.push(`${path} is a link to ${target}, which is excluded`);
      return false;
    });
  }

  async function walk(base: string, outer: Rules): Promise<void> {
    const here = join(root, base);
    const ownRules = isDependency(base) ? null : await readText(root, base === '' ? '.gitignore' : `${base}/.gitignore`);
    const rules: Rules = ownRules === null ? outer : { ...outer, git: [{ base, rules: new IgnoreFile(ownRules) }, ...outer.git] };
    const names = await readdir(here);
    // A virtual environment contains packages for this machine.
    if (base !== '' && names.includes('pyvenv.cfg')) return;
    const isPythonProject = !isDependency(base) && names.some((name) => PYTHON_PROJECT.has(name));
    for (const name of names) {
      const path = base === '' ? name : `${base}/${name}`;
      if (isPythonProject && (await isBuildOutput(path)) && !rules.tool.names(path, true)) continue;
      if (NEVER.test(name) || path === MANIFEST_NAME) continue;
      if (options.skip?.(name, path) === true) continue;
      const stat = await statOf(path);
      const isFolder = stat.isDirectory();
      const verdict = verdictOf(path, isFolder, rules);
      if (verdict === 'excluded' && !(isFolder && rules.tool.includesBelow(path))) continue;
      const isNamed = rules.tool.names(path, isFolder);
      const hint = `(to pack it, add !${path} to .toolignore)`;
      if (!isNamed && options.secrets?.includes(path) === true) {
        leftOut.push(`${path} is the file of --env-file, whose values are secrets ${hint}`);
        continue;
      }
      // Packages contain certificates and samples; what the user wrote there on purpose is named in .toolignore.
      if (!isDependency(path) && !isNamed) {
        if (isCredentialName(name, stat.isDirectory())) {
          leftOut.push(`${path} may contain credentials ${hint}`);
          continue;
        }
        if (stat.isFile() && (await hasPrivateKey(join(root, path), stat.size))) {
          leftOut.push(`${path} contains a private key ${hint}`);
          continue;
        }
      }
      if (stat.isDirectory()) {
        const isOutside = verdict === 'excluded' || (rules.isOutside && verdict !== 'included');
        if (base !== NODE_MODULES || name !== '.cache') await walk(path, { ...rules, isOutside });
      } else if (stat.isSymbolicLink()) {
        const target = await targetInside(path);
        if (target !== null) {
          entries.push({ path, stat });
          links.set(path, target);
        } else if (isDependency(path)) leftOut.push(`${path} is a link to a path outside the folder`);
        else
          throw new ToolError(
            'INVALID_ARCHIVE',
            `${path} is a broken link or points outside the folder; an artifact contains only files of the folder`,
            'Replace it with its target, or add it to .toolignore.',
            { field: path },
          );
      } else if (stat.isFile()) entries.push({ path, stat });
      else leftOut.push(`${path} is not a regular file`);
    }
  }

  /** What setuptools writes into a project that it builds. */
  async function isBuildOutput(path: string): Promise<boolean> {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (name !== 'build' && !name.endsWith(EGG_INFO)) return false;
    const here = join(root, path);
    if (!(await lstat(here)).isDirectory()) return false;
    const inside = await readdir(here);
    return name === 'build' ? inside.length > 0 && inside.every((each) => SETUPTOOLS_BUILD.test(each)) : inside.includes('PKG-INFO');
  }

  async function statOf(path: string): Promise<Stats> {
    try {
      return await lstat(join(root, path));
    } catch (error) {
      if (!path.includes('\ufffd') || !isErrno(error, 'ENOENT')) throw error;
      throw new ToolError('INVALID_ARCHIVE', `${path}: the name of the file must be UTF-8`, 'Rename it.', {
        field: path,
      });
    }
  }

  /**
   * Returns the target of a link, relative to the folder; null when it is outside. Links are resolved fully: a chain of
   * links may lead out although no single link does.
   */
  async function targetInside(path: string): Promise<string | null> {
    const target = await readlink(join(root, path));
    if (isAbsolute(target)) return null;
    if (!isInside(root, resolve(root, dirname(path), target))) return null;
    try {
      const real = await realpath(join(root, path));
      return isInside(root, real) ? relative(root, real).split(sep).join('/') : null;
    } catch {
      return null; // a dangling link
    }
  }
}

/** @throws CapstanError INVALID_ARCHIVE for a name that hosts refuse. */
export function checkNames(entries: readonly Pick<FileEntry, 'path'>[]): void {
  for (const { path } of entries) {
    const rule = path.includes('\\')
      ? 'must not contain a backslash'
      : Buffer.byteLength(path) > ARTIFACT_LIMITS.pathBytes
        ? `must have at most ${ARTIFACT_LIMITS.pathBytes} bytes`
        : undefined;
    if (rule !== undefined)
      throw new ToolError('INVALID_ARCHIVE', `${path}: the name of the file ${rule}`, 'Rename it, or add it to .toolignore.', {
        field: path,
      });
  }
}

function isDependency(path: string): boolean {
  return dependencies.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** The tool's rules decide over `.gitignore`, in both directions. */
function verdictOf(path: string, isFolder: boolean, { git, tool, isOutside }: Rules): Verdict {
  const own = tool.verdict(path, isFolder);
  if (own !== undefined) return own;
  if (isOutside) return 'excluded';
  if (isDependency(path)) return undefined;
  for (const { base, rules } of git) {
    const verdict = rules.verdict(base === '' ? path : path.slice(base.length + 1), isFolder);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root + sep);
}
