/** Reads the dependencies of `pyproject.toml`: of `[project]` (PEP 621), or of Poetry where that has none. */
import { resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import { hostMarkers, type MarkerEnvironment } from './markers.ts';
import { poetryRequirements, poetrySchema } from './poetry.ts';
import { normalised, requirementName } from './python-names.ts';
import { readToml } from '../programs/toml.ts';
import { fileUrl, inheritedPlaces, memberPlaces, placesOf, PYPROJECT, uvSources, type Place } from './uv-sources.ts';

const schema = z.looseObject({
  project: z
    .looseObject({
      dependencies: z.array(z.string(), 'dependencies of [project] must be an array of strings').default([]),
      dynamic: z.array(z.string()).default([]),
    })
    .optional(),
  tool: z
    .looseObject({
      poetry: z.looseObject({ dependencies: poetrySchema.default({}) }).optional(),
      uv: z
        .looseObject({
          sources: uvSources.default({}),
          index: z.array(z.looseObject({ name: z.string().optional(), url: z.string(), explicit: z.boolean().default(false) })).default([]),
        })
        .optional(),
    })
    .optional(),
});

export interface Pyproject {
  readonly dependencies: readonly string[];
  /** Indexes that packages name in `[tool.uv.sources]`. */
  readonly extraIndexes: readonly string[];
  /** Where packages come from that no index has, by normalised names: for requirements of other files, too. */
  readonly places: ReadonlyMap<string, string>;
  readonly warnings: readonly string[];
}

/**
 * `environment`: that of the machine which runs the packages; entries with markers are selected for it. `file`: for
 * messages. @throws CapstanError INVALID_MANIFEST when the file is not TOML or its dependencies are not a list of strings.
 */
export async function readPyproject(
  folder: string,
  environment: MarkerEnvironment = hostMarkers('3.11'),
  file: string = PYPROJECT,
): Promise<Pyproject> {
  const text = (await readText(folder, PYPROJECT)) ?? '';
  // Most files name no dependencies, and starting Python takes time.
  const members = await memberPlaces(folder);
  if (!/dependencies|sources/.test(text)) return { dependencies: [], extraIndexes: [], places: urlsOf(members), warnings: [] };
  const [content] = await readToml([{ name: file, text }]);
  const read = schema.safeParse(content);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new ToolError('INVALID_MANIFEST', `${file}: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`, 'Correct the file.');
  }
  const { project, tool } = read.data;
  const own = project?.dependencies ?? [];
  const table = poetryRequirements(tool?.poetry?.dependencies ?? {}).map((each) => absolute(each, folder));
  // A source whose markers do not hold leaves the package to the indexes, as its author says.
  for (const name of Object.keys(tool?.uv?.sources ?? {})) members.delete(normalised(name));
  const places = new Map([
    ...members,
    ...(await inheritedPlaces(folder, environment)),
    ...(await placesOf(tool?.uv?.sources ?? {}, { folder, file, environment })),
  ]);
  // With both, Poetry's table says where a package of [project] comes from.
  for (const each of own.length > 0 ? table : []) {
    const [, url] = / @ ([^;]*?)\s*(?:;|$)/.exec(each) ?? [];
    if (url !== undefined && !places.has(requirementName(each))) places.set(requirementName(each), { kind: 'direct', url });
  }
  const listed = own.length > 0 ? own : table;
  const named = new Set(listed.flatMap((each) => indexOf(places.get(requirementName(each)))));
  const direct = urlsOf(places);
  return {
    dependencies: listed.map((each) => absolute(withPlace(each, direct), folder)),
    extraIndexes: (tool?.uv?.index ?? []).flatMap(({ name, url, explicit }) =>
      !explicit || (name !== undefined && named.has(name)) ? [url] : [],
    ),
    places: direct,
    warnings:
      project?.dynamic.includes('dependencies') === true && listed.length === 0
        ? [`${file}: dependencies of [project] are dynamic and are not read; list them in the file or in requirements.txt`]
        : [],
  };
}

function urlsOf(places: ReadonlyMap<string, Place>): Map<string, string> {
  return new Map([...places].flatMap(([name, place]) => (place.kind === 'direct' ? [[name, place.url] as const] : [])));
}

function indexOf(place: Place | undefined): string[] {
  return place?.kind === 'index' ? [place.index] : [];
}

/** Replaces the version of a requirement by the place of its package, if it has one. */
export function withPlace(requirement: string, places: ReadonlyMap<string, string>): string {
  const [, head = '', name = '', rest = ''] = /^\s*(([\w.-]+)(?:\s*\[[^\]]*\])?)([^;]*)/.exec(requirement) ?? [];
  const place = rest.trimStart().startsWith('@') ? undefined : places.get(normalised(name));
  if (place === undefined) return requirement;
  const [marker = ''] = /;.*$/.exec(requirement) ?? [];
  return `${head} @ ${place}${marker === '' ? '' : ` ${marker}`}`;
}

/** A relative path after `@` becomes an absolute URL. */
function absolute(requirement: string, folder: string): string {
  return requirement.replace(
    /^([^@;]+@ )(?!\w+(?:\+\w+)?:)([^;]+?)(?=\s*(?:;|$))/,
    (_, head: string, path: string) => `${head}${fileUrl(resolve(folder, path.replace(/^file:/, '')))}`,
  );
}
