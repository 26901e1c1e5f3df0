/** Which Python runs a project: `--python`, else `.python-version`, else that of this machine; `requires-python` must allow it. */
import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import { hostMarkers, markerHolds } from './markers.ts';
import { readToml } from '../programs/toml.ts';
import { PYPROJECT } from './uv-sources.ts';

const FILE = '.python-version';

/** Returns the version that `.python-version` names first, `3.12`; undefined without one, and for another implementation. */
export async function namedPython(folder: string): Promise<string | undefined> {
  const [line = ''] = ((await readText(folder, FILE)) ?? '').split('\n').filter((each) => each.trim() !== '' && !each.startsWith('#'));
  return /^(?:python|cpython)?[-@]?(3\.\d{1,2})(?:\.\d+)?\s*$/.exec(line.trim())?.[1];
}

const schema = z.looseObject({
  project: z.looseObject({ 'requires-python': z.string().optional() }).optional(),
  tool: z.looseObject({ poetry: z.looseObject({ dependencies: z.looseObject({ python: z.unknown() }).optional() }).optional() }).optional(),
});

/** What a version is of: the Python that a build is made for, or that of this machine, on which `capstan run` runs the project. */
export type PythonUse = 'build' | 'here';

/** @throws CapstanError INVALID_MANIFEST when the project does not run on the version, naming both. */
export async function mustAllow(folder: string, version: string, use: PythonUse = 'build'): Promise<void> {
  const required = await requiredPython(folder);
  if (required !== undefined) mustSatisfy(required, version, PYPROJECT, use);
}

/** Returns `requires-python` of the project; undefined without one. */
export async function requiredPython(folder: string): Promise<string | undefined> {
  const text = (await readText(folder, PYPROJECT)) ?? '';
  if (!text.includes('requires-python')) return undefined;
  const [content] = await readToml([{ name: PYPROJECT, text }]);
  return schema.safeParse(content).data?.project?.['requires-python'];
}

/** Returns whether `required`, as `requires-python`, allows `whole`, such as `3.11.2`. `file`: who requires it. */
export function allowsPython(required: string, whole: string, file: string): boolean {
  // Hosts report `3.14.0rc2` and `3.13.1+`; installers compare the numbers.
  const [version = whole] = /^\d+(?:\.\d+)*/.exec(whole) ?? [];
  const [major = '', minor = ''] = version.split('.');
  const marker = required
    .split(',')
    .map((each) => each.trim().replace(/^([<>=!~]+)\s*(.+)$/, "python_full_version $1 '$2'"))
    .filter((each) => each !== '')
    .join(' and ');
  const environment = { ...hostMarkers(`${major}.${minor}`), python_full_version: version };
  return marker === '' || markerHolds(marker, environment, `${file}: requires-python`);
}

/** `required`: as `requires-python`; `file`: who requires it. @throws CapstanError INVALID_MANIFEST, naming both versions. */
export function mustSatisfy(required: string, version: string, file: string, use: PythonUse = 'build'): void {
  // The last release of the version decides: ">=3.11.4" allows 3.11.
  if (allowsPython(required, `${version}.99`, file)) return;
  if (use === 'here')
    throw new ToolError(
      'INVALID_MANIFEST',
      `${file} requires Python ${required}, and python3 of this machine, which reads and runs the sources, is Python ${version}`,
      'Put a Python that it allows first on PATH, such as that of a virtual environment.',
    );
  throw new ToolError(
    'INVALID_MANIFEST',
    `${file} requires Python ${required}, and the build is for Python ${version}`,
    `Name a version that hosts have: --python 3.x, or a file ${FILE}; the default is the version of this machine's python3.`,
  );
}
