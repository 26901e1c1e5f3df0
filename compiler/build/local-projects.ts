/**
 * Local projects that other local projects require. Only uv reads the sources of a project that it builds; pip would take
 * the names from an index. So what they name is requested with them.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { MarkerEnvironment } from './markers.ts';
import { readPyproject } from './pyproject.ts';
import { requirementName } from './python-names.ts';
import { PYPROJECT } from './uv-sources.ts';

/** Local projects that require one another; people have fewer. */
const MAX_PROJECTS = 200;

/** Returns the requirements that local projects among `requirements` name by a source, directly or not. */
export async function localRequirements(
  folder: string,
  requirements: readonly string[],
  environment: MarkerEnvironment | undefined,
): Promise<string[]> {
  const named = new Set(requirements.map(requirementName));
  const found: string[] = [];
  const seen = new Set([folder]);
  const waiting = [...requirements];
  for (let each = waiting.pop(); each !== undefined && seen.size < MAX_PROJECTS; each = waiting.pop()) {
    const { path, marker } = localOf(each);
    if (path === undefined || seen.has(path)) continue;
    seen.add(path);
    const { dependencies } = await readPyproject(path, environment, join(path, PYPROJECT));
    for (const one of dependencies) {
      if (!one.includes(' @ ') || named.has(requirementName(one))) continue;
      named.add(requirementName(one));
      // What needs it is installed on some machines only.
      const marked = marker === '' || one.includes(';') ? one : `${one} ${marker}`;
      found.push(marked);
      waiting.push(marked);
    }
  }
  return found;
}

function localOf(requirement: string): { readonly path: string | undefined; readonly marker: string } {
  const [, url, marker = ''] = /@ (file:\/\/[^\s;#]+)[^\s;]*\s*(;.*)?$/.exec(requirement) ?? [];
  if (url !== undefined) return { path: fileURLToPath(url), marker };
  const [path = ''] = requirement.split(/[[;]/, 1);
  return { path: path.startsWith('/') ? path.trim() : undefined, marker: '' };
}
