/** Finds the web application that a declaration names: `main:app`, `server.ts`, or a value of the file itself. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, join, posix } from 'node:path';

import type { CheckedSettings } from '../../sdk/typescript/settings.ts';
import type { DeclaredApp } from './declared.ts';
import { broken, type Place } from './settings.ts';

/** Stands for an application that the declaration itself holds. */
export const HELD = { $held: true } as const;

const PYTHON_APP =
  /^[\p{ID_Start}_][\p{ID_Continue}.]*:([\p{ID_Start}_][\p{ID_Continue}]*(?:\.[\p{ID_Start}_][\p{ID_Continue}]*)*(?:\(\))?)$/u;
const NODE_NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const LOADABLE = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);

/** `file`: the module's file as discovery found it. @throws CapstanError INVALID_MANIFEST with file, line and rule. */
export function pythonAppOf(app: string | object | undefined, file: string | null, place: Place, endpoint: string): DeclaredApp | null {
  if (app === undefined) return null;
  if (typeof app !== 'string') return { file: null, name: '' };
  const [, name] = PYTHON_APP.exec(app) ?? [];
  if (name === undefined) throw broken(place, `endpoint ${endpoint}: app must have the form module:name, for example main:app, not ${app}`);
  const module = app.slice(0, app.indexOf(':'));
  if (file === null)
    throw broken(
      place,
      `endpoint ${endpoint}: app ${app}: ${module.replaceAll('.', '/')}.py is not in the project`,
      'Use the module name by which Python imports it from the project’s folder; an application in an installed package requires command=.',
    );
  return { file, name };
}

/** @throws CapstanError INVALID_MANIFEST with file, line and rule. */
export function nodeAppOf(
  { app, name: endpoint, build }: Pick<CheckedSettings, 'app' | 'name' | 'build'>,
  folder: string,
  place: Place,
): DeclaredApp | null {
  if (app === undefined) return null;
  if (typeof app !== 'string') return { file: null, name: '' };
  const [path = '', name = '', ...more] = app.split(':');
  const file = posix.normalize(path);
  if (
    more.length > 0 ||
    (app.includes(':') && !NODE_NAME.test(name)) ||
    !LOADABLE.has(extname(file)) ||
    file.startsWith('..') ||
    posix.isAbsolute(file)
  )
    throw broken(place, `endpoint ${endpoint}: app must be a file of the project, such as server.ts or server.ts:app, not ${app}`);
  const target = join(folder, file);
  // What the build makes is looked for afterwards.
  if (build === undefined && (!existsSync(target) || !statSync(target).isFile()))
    throw broken(place, `endpoint ${endpoint}: app ${app}: ${file} is not in the project`, missingHint(folder));
  return { file, name };
}

/** A project with a build script most likely means a file that this makes. */
function missingHint(folder: string): string {
  try {
    const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { scripts?: { build?: unknown } };
    if (typeof scripts?.build === 'string')
      return "If the script build of package.json makes the file, add to the declaration: build: 'npm run build'";
  } catch {
    // No package.json, or a damaged one, which the installation reports.
  }
  return 'Correct the declaration.';
}
