/** What a program of the user's own gets beside its environment: its arguments' values, and the packages of its build. */
import { existsSync, lstatSync, mkdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import type { WorkerStart } from './runtime.ts';

/** `$PORT`, `$PORT_HEALTH` and `$CAPSTAN_…`, also in braces. */
const VARIABLE = /\$(?:(PORT(?:_HEALTH)?|CAPSTAN_[A-Z0-9_]+)(?![A-Za-z0-9_])|\{(PORT(?:_HEALTH)?|CAPSTAN_[A-Z0-9_]+)\})/g;
/** In the working folder: programs of the agent for the worker's PATH. Hidden files are not the application's. */
const PROGRAMS = '.capstan-bin';
const PYTHON_PACKAGES = 'python_packages';

/** Replaces the variables that a worker has in its command; others stay as they are. No shell takes part. */
export function expandedCommand(command: readonly string[], env: Readonly<Record<string, string>>): string[] {
  return command.map((word) => word.replaceAll(VARIABLE, (text, plain?: string, braced?: string) => env[plain ?? braced ?? ''] ?? text));
}

/**
 * Returns the environment with the build's packages in front: console scripts of Python and npm packages and the
 * agent's own Node on PATH, modules of the build and its packages on PYTHONPATH. Node finds `node_modules` itself.
 */
export function withBuild(
  env: Readonly<Record<string, string>>,
  { folder, workFolder }: Pick<WorkerStart, 'folder' | 'workFolder'>,
): Record<string, string> {
  if (folder === '') return { ...env };
  const own = ownPrograms(workFolder);
  return withBuildAt(env, { folder, seen: folder, programs: own === undefined ? [] : [own] });
}

/** The same for a worker that sees the build at another path, `seen`; `programs`: more folders for its PATH. */
export function withBuildAt(
  env: Readonly<Record<string, string>>,
  { folder, seen, programs }: { readonly folder: string; readonly seen: string; readonly programs: readonly string[] },
): Record<string, string> {
  const present = (names: readonly string[]): string[] => names.filter((name) => folder !== '' && existsSync(join(folder, name)));
  const bins = present([join(PYTHON_PACKAGES, 'bin'), 'node_modules/.bin']).map((name) => join(seen, name));
  const modules = present([PYTHON_PACKAGES]).flatMap((name) => [seen, join(seen, name)]);
  return {
    ...env,
    PATH: joined([...bins, ...programs], env['PATH']),
    ...(modules.length === 0 ? {} : { PYTHONPATH: joined(modules, env['PYTHONPATH']) }),
  };
}

/** A folder with the Node of this agent, which also runs functions; a host may have none, or an older one. */
function ownPrograms(workFolder: string): string | undefined {
  if (workFolder === '') return undefined;
  const folder = join(workFolder, PROGRAMS);
  // A build with a file of this name keeps it.
  if (lstatSync(folder, { throwIfNoEntry: false }) !== undefined) return undefined;
  mkdirSync(folder, { mode: 0o700 });
  symlinkSync(process.execPath, join(folder, 'node'));
  return folder;
}

function joined(first: readonly string[], rest: string | undefined): string {
  return [...first, ...(rest === undefined || rest === '' ? [] : [rest])].join(delimiter);
}
