/**
 * The Python packages of a folder with a written manifest whose endpoints run a `command`: what its `requirements.txt` and
 * `pyproject.toml` request, unless the folder has packages of its own.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type { Application } from '../application/application.ts';
import type { Layer } from '../artifact/artifact.ts';
import { createActivity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { PYTHON_PACKAGES } from '../artifact/generated.ts';
import { hostMarkers } from './markers.ts';
import type { InstallOptions } from './packages.ts';
import { normalised, requirementName } from './python-names.ts';
import { installPython } from './python-packages.ts';
import { readPythonProject } from './python-project.ts';
import { mustAllow, namedPython } from './python-version.ts';
import { REQUIREMENTS } from './requirements-file.ts';
import { runInstaller } from '../programs/run-installer.ts';

/** @throws CapstanError as a build of declared endpoints does when packages cannot be installed. */
export async function commandLayers(
  { folder, endpoints }: Pick<Application, 'folder' | 'endpoints'>,
  options: InstallOptions,
  terminal: Terminal,
): Promise<readonly Layer[]> {
  const commands = endpoints.filter(({ spec }) => spec.command.length > 0 && spec.imageName === '');
  if (commands.length === 0 || !existsSync(join(folder, REQUIREMENTS)) || existsSync(join(folder, PYTHON_PACKAGES))) return [];
  const ownVersion = await localVersion(folder);
  const version = options.python ?? (await namedPython(folder)) ?? ownVersion;
  if (version === null) return [];
  await mustAllow(folder, version);
  const project = await readPythonProject(folder, options.lookUp, hostMarkers(version));
  for (const text of project.warnings) terminal.warn(text);
  const promised = commands.flatMap(({ spec }) => spec.packages);
  const leaveOut = new Set([...promised, ...options.exclude].map(normalised));
  const requirements = project.requirements.filter((each) => !leaveOut.has(requirementName(each)));
  if (requirements.length === 0) return [];
  const activity = createActivity(terminal);
  try {
    const order = { folder, project, requirements, leaveOut, version, ownVersion, activity, terminal };
    const { layer, notes } = await installPython({ ...order, isForHere: false, cacheDir: options.cacheDir, refresh: options.refresh });
    activity.end();
    for (const text of notes.warnings) terminal.warn(text);
    return [layer];
  } finally {
    activity.end();
  }
}

/** Null without Python. */
async function localVersion(folder: string): Promise<string | null> {
  const { stdout } = await runInstaller('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], { cwd: folder });
  return stdout.trim() || null;
}
