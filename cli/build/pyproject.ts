/** Reads the dependencies of `pyproject.toml`: of `[project]` (PEP 621), or of Poetry where that has none. */
import { resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../terminal/tool-error.ts';
import { readText } from '../text-file.ts';
import { poetryRequirements, poetrySchema } from './poetry.ts';
import { normalised, requirementName } from './python-names.ts';
import { readToml } from './toml.ts';

const FILE = 'pyproject.toml';

const uvSource = z.looseObject({
  index: z.string().optional(),
  git: z.string().optional(),
  rev: z.string().optional(),
  tag: z.string().optional(),
  branch: z.string().optional(),
  subdirectory: z.string().optional(),
  url: z.string().optional(),
  path: z.string().optional(),
  workspace: z.boolean().optional(),
});
type UvSource = z.output<typeof uvSource>;

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
          sources: z.record(z.string(), z.union([uvSource, z.array(uvSource)])).default({}),
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
  readonly warnings: readonly string[];
}

/** @throws CapstanError INVALID_MANIFEST when the file is not TOML or its dependencies are not a list of strings. */
export async function readPyproject(folder: string): Promise<Pyproject> {
  const text = (await readText(folder, FILE)) ?? '';
  // Most files name no dependencies, and starting Python takes time.
  if (!text.includes('dependencies')) return { dependencies: [], extraIndexes: [], warnings: [] };
  const [content] = await readToml([{ name: FILE, text }]);
  const read = schema.safeParse(content);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new ToolError('INVALID_MANIFEST', `${FILE}: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`, 'Correct the file.');
  }
  const { project, tool } = read.data;
  const own = project?.dependencies ?? [];
  const table = own.length > 0 ? {} : (tool?.poetry?.dependencies ?? {});
  const sources = new Map(Object.entries(tool?.uv?.sources ?? {}).map(([name, source]) => [normalised(name), [source].flat()[0]]));
  const listed = [...own, ...poetryRequirements(table)];
  const named = new Set(listed.flatMap((each) => sources.get(requirementName(each))?.index ?? []));
  return {
    dependencies: listed.map((each) => absolute(withSource(each, sources.get(requirementName(each))), folder)),
    extraIndexes: (tool?.uv?.index ?? []).flatMap(({ name, url, explicit }) =>
      !explicit || (name !== undefined && named.has(name)) ? [url] : [],
    ),
    warnings:
      project?.dynamic.includes('dependencies') === true && listed.length === 0
        ? [`${FILE}: dependencies of [project] are dynamic and are not read; list them in the file or in requirements.txt`]
        : [],
  };
}

/** Replaces the version by the place that `[tool.uv.sources]` names. */
function withSource(requirement: string, source: UvSource | undefined): string {
  if (source === undefined) return requirement;
  const [, head = '', marker = ''] = /^\s*([\w.-]+(?:\s*\[[^\]]*\])?)[^;]*(;.*)?$/.exec(requirement) ?? [];
  const at = source.rev ?? source.tag ?? source.branch;
  const place =
    source.git === undefined
      ? (source.url ?? source.path)
      : `git+${source.git}${at === undefined ? '' : `@${at}`}${source.subdirectory === undefined ? '' : `#subdirectory=${source.subdirectory}`}`;
  return place === undefined ? requirement : `${head} @ ${place}${marker === '' ? '' : ` ${marker}`}`;
}

/** A relative path after `@` becomes an absolute URL. */
function absolute(requirement: string, folder: string): string {
  return requirement.replace(
    /^([^@;]+@ )(?!\w+(?:\+\w+)?:)([^;]+?)(?=\s*(?:;|$))/,
    (_, head: string, path: string) => `${head}${fileUrl(resolve(folder, path.replace(/^file:/, '')))}`,
  );
}

function fileUrl(path: string): string {
  return `file://${path.split('/').map(encodeURIComponent).join('/')}`;
}
