/**
 * Runs the command by which a project makes files (`build: 'npm run build'`) in a clean copy of it: what the copy holds
 * afterwards is packed, whatever `.gitignore` says, and the project itself is not changed.
 */
import { cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

import { readEnvironment } from '../../terminal/config.ts';
import type { DeclaredApplication } from '../discovery/declared.ts';
import { listFiles } from '../artifact/files.ts';
import type { Activity } from '../../terminal/activity.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { installForBuild } from './node-packages.ts';
import { runInstaller } from '../programs/run-installer.ts';
import { nodeSdk } from './sdk-files.ts';

/** Lines of a failed command that its error repeats. */
const LAST_LINES = 15;
/** What the command may read, and an artifact never has. */
const ITS_OWN = /^(\.npmrc|\.env(\..+)?)$/;
/** Made by builds for their next run. */
const CACHES = ['node_modules', '.next/cache', '.turbo', '.vite', '.parcel-cache', '.git'];

export interface BuiltCopy {
  /** Absolute. */
  readonly folder: string;
  remove(): Promise<void>;
}

/** Returns the commands of a project, each once. */
export function buildCommands({ endpoints }: Pick<DeclaredApplication, 'endpoints'>): readonly string[] {
  return [...new Set(endpoints.flatMap(({ settings }) => settings.build ?? []))];
}

/** @throws CapstanError INVALID_MANIFEST with the command's last lines, and for a file of an app that it did not make. */
export async function builtCopy(declared: DeclaredApplication, activity: Activity): Promise<BuiltCopy> {
  const copy = await mkdtemp(join(tmpdir(), 'capstan-build-'));
  const remove = async (): Promise<void> => rm(copy, { recursive: true, force: true });
  try {
    await copyProject(declared.folder, copy);
    activity.begin('installing what the build needs');
    await installForBuild({ project: declared.folder, folder: copy, activity });
    await placeSdk(declared.folder, copy);
    for (const command of buildCommands(declared)) {
      activity.begin(`building: ${command}`);
      await run(command, copy, activity);
    }
    await mustHave(declared, copy);
    await clean(copy);
    return { folder: copy, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function copyProject(folder: string, copy: string): Promise<void> {
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  const own = (await readdir(folder)).filter((name) => ITS_OWN.test(name));
  for (const path of [...entries.map((entry) => entry.path), ...own]) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await cp(join(folder, path), join(copy, path), { verbatimSymlinks: true, preserveTimestamps: true, recursive: true });
  }
}

/** The project's own SDK has types; the one of the tool runs all the same. */
async function placeSdk(folder: string, copy: string): Promise<void> {
  const path = 'node_modules/@capstan/sdk';
  if ((await stat(join(copy, path)).catch(() => null)) !== null) return; // installed
  if ((await stat(join(folder, path)).catch(() => null)) !== null) {
    await cp(join(folder, path), join(copy, path), { recursive: true, dereference: true });
    return;
  }
  for (const file of await nodeSdk()) {
    await mkdir(dirname(join(copy, file.path)), { recursive: true });
    await writeFile(join(copy, file.path), file.content);
  }
}

async function run(command: string, cwd: string, activity: Activity): Promise<void> {
  const path = [join(cwd, 'node_modules/.bin'), readEnvironment().variables['PATH'] ?? ''].join(delimiter);
  const lines: string[] = [];
  const { ok } = await runInstaller('/bin/sh', ['-c', command], {
    cwd,
    variables: { PATH: path, CI: '1', NEXT_TELEMETRY_DISABLED: '1' },
    onLine: (line) => {
      if (line.trim() === '') return;
      lines.push(line);
      if (lines.length > LAST_LINES) lines.shift();
      activity.detail(line.trim().slice(0, 60));
    },
  });
  if (ok) return;
  throw new ToolError(
    'INVALID_MANIFEST',
    `the build command ${command} failed:\n  ${lines.join('\n  ')}`,
    'It runs in a clean copy of the project, which has the files of the artifact, .env and the packages of package.json.',
  );
}

async function mustHave({ endpoints }: DeclaredApplication, copy: string): Promise<void> {
  for (const { app, place, settings, name } of endpoints) {
    if (app?.file == null || settings.build === undefined || (await isFile(join(copy, app.file)))) continue;
    throw new ToolError(
      'INVALID_MANIFEST',
      `${place}: endpoint ${name}: the build command ${settings.build} did not make ${app.file}, which app names`,
      'Name the file that the command makes.',
    );
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

/** Leaves the outputs, and nothing that keeps them out of the artifact. */
async function clean(copy: string): Promise<void> {
  for (const path of CACHES) await rm(join(copy, path), { recursive: true, force: true });
  for (const each of await readdir(copy, { recursive: true, withFileTypes: true }))
    if (each.name === '.gitignore') await rm(join(each.parentPath, each.name));
}
