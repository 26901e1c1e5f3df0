/**
 * Where `[tool.uv.sources]` finds packages: repositories, addresses, paths, indexes, and members of a workspace. A package
 * with a source never comes from a public index.
 */
import { glob } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import { markerHolds, type MarkerEnvironment } from './markers.ts';
import { normalised } from './python-names.ts';
import { readToml } from '../programs/toml.ts';

export const PYPROJECT = 'pyproject.toml';

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
  marker: z.string().optional(),
  extra: z.string().optional(),
  group: z.string().optional(),
});
type UvSource = z.output<typeof uvSource>;

export const uvSources = z.record(z.string(), z.union([uvSource, z.array(uvSource)]));
type UvSources = z.output<typeof uvSources>;

/** Where one package comes from. */
export type Place = { readonly kind: 'index'; readonly index: string } | { readonly kind: 'direct'; readonly url: string };

export interface SourceContext {
  /** Folder of the file that has the sources, absolute. */
  readonly folder: string;
  /** The file, for messages. */
  readonly file: string;
  readonly environment: MarkerEnvironment;
}

/**
 * Returns the places by normalised names. Of several entries the one counts whose marker holds; without one the package
 * has no source. @throws CapstanError INVALID_MANIFEST for a source that is not known, and for a missing member.
 */
export async function placesOf(sources: UvSources, context: SourceContext): Promise<Map<string, Place>> {
  const places = new Map<string, Place>();
  let members: Promise<ReadonlyMap<string, string>> | undefined;
  for (const [name, given] of Object.entries(sources)) {
    const where = `${context.file}: tool.uv.sources.${name}`;
    const source = [given]
      .flat()
      .filter(({ extra, group }) => extra === undefined && group === undefined)
      .find(({ marker }) => marker === undefined || markerHolds(marker, context.environment, where));
    if (source === undefined) continue;
    if (source.workspace === true) {
      members ??= workspaceMembers(context.folder);
      places.set(normalised(name), memberPlace(name, await members, where));
    } else places.set(normalised(name), placeOf(source, context.folder, where));
  }
  return places;
}

function placeOf(source: UvSource, folder: string, where: string): Place {
  const { index, git, url, path, subdirectory } = source;
  const below = subdirectory === undefined ? '' : `#subdirectory=${subdirectory}`;
  if (git !== undefined) {
    const at = source.rev ?? source.tag ?? source.branch;
    return { kind: 'direct', url: `git+${git}${at === undefined ? '' : `@${at}`}${below}` };
  }
  if (url !== undefined) return { kind: 'direct', url: `${url}${below}` };
  if (path !== undefined) return { kind: 'direct', url: fileUrl(resolve(folder, path)) };
  if (index !== undefined) return { kind: 'index', index };
  throw new ToolError('INVALID_MANIFEST', `${where}: the source must be git, url, path, index, or workspace = true`, 'Correct the file.');
}

function memberPlace(name: string, members: ReadonlyMap<string, string>, where: string): Place {
  const folder = members.get(normalised(name));
  if (folder !== undefined) return { kind: 'direct', url: fileUrl(folder) };
  const known =
    members.size === 0 ? 'there is no [tool.uv.workspace] here or above' : `its members: ${[...members.keys()].sort().join(', ')}`;
  throw new ToolError(
    'INVALID_MANIFEST',
    `${where}: workspace = true, and no member of the workspace has this name (${known})`,
    'Add the member to the workspace, or name its path.',
  );
}

const projectSchema = z.looseObject({
  project: z.looseObject({ name: z.string().optional() }).optional(),
  tool: z
    .looseObject({
      uv: z
        .looseObject({
          sources: uvSources.optional(),
          workspace: z.looseObject({ members: z.array(z.string()).default([]), exclude: z.array(z.string()).default([]) }).optional(),
        })
        .optional(),
    })
    .optional(),
});

/** Returns the members of the workspace that a folder belongs to: normalised names → folders. */
async function workspaceMembers(folder: string): Promise<ReadonlyMap<string, string>> {
  const found = await workspaceOf(folder);
  return found === undefined ? new Map() : membersOf(found.root, found.workspace);
}

/**
 * Returns the places that the root of a workspace gives its members, by normalised names: a member without a source of its
 * own for a package has that of the root. @throws CapstanError as `placesOf`.
 */
export async function inheritedPlaces(folder: string, environment: MarkerEnvironment): Promise<Map<string, Place>> {
  const found = await workspaceOf(folder);
  if (found === undefined || found.root === folder || found.sources === undefined) return new Map();
  const members = await membersOf(found.root, found.workspace);
  if (![...members.values()].includes(folder)) return new Map();
  return placesOf(found.sources, { folder: found.root, file: join(relative(folder, found.root), PYPROJECT), environment });
}

/**
 * Returns the folders of a workspace's members by normalised names, for its root and each of its members: what they name
 * without a source is the member all the same, and never a public package of its name.
 */
export async function memberPlaces(folder: string): Promise<Map<string, Place>> {
  const found = await workspaceOf(folder);
  if (found === undefined) return new Map();
  const members = [...(await membersOf(found.root, found.workspace))];
  if (folder !== found.root && !members.some(([, each]) => each === folder)) return new Map();
  return new Map(members.flatMap(([name, each]) => (each === folder ? [] : [[name, { kind: 'direct', url: fileUrl(each) }]])));
}

interface Workspace {
  readonly root: string;
  readonly workspace: { readonly members: readonly string[]; readonly exclude: readonly string[] };
  readonly sources: UvSources | undefined;
}

async function workspaceOf(folder: string): Promise<Workspace | undefined> {
  for (let root = folder; ; root = dirname(root)) {
    const text = (await readText(root, PYPROJECT)) ?? '';
    const [found] = text.includes('workspace') ? await readProjects([{ folder: root, text }]) : [];
    const { workspace, sources } = found?.tool?.uv ?? {};
    if (workspace !== undefined) return { root, workspace, sources };
    if (dirname(root) === root) return undefined;
  }
}

async function membersOf(
  root: string,
  { members, exclude }: { readonly members: readonly string[]; readonly exclude: readonly string[] },
): Promise<ReadonlyMap<string, string>> {
  const folders = new Set([root]);
  for await (const path of glob([...members], { cwd: root, exclude: [...exclude] })) folders.add(resolve(root, path));
  const texts: { folder: string; text: string }[] = [];
  for (const folder of folders) {
    const text = await readText(folder, PYPROJECT);
    if (text !== null) texts.push({ folder, text });
  }
  const projects = await readProjects(texts);
  return new Map(
    texts.flatMap(({ folder }, index) => {
      const name = projects[index]?.project?.name;
      return name === undefined ? [] : [[normalised(name), folder] as const];
    }),
  );
}

async function readProjects(
  texts: readonly { readonly folder: string; readonly text: string }[],
): Promise<z.output<typeof projectSchema>[]> {
  const contents = await readToml(texts.map(({ folder, text }) => ({ name: join(relative(process.cwd(), folder), PYPROJECT), text })));
  return contents.map((content) => projectSchema.safeParse(content).data ?? {});
}

export function fileUrl(path: string): string {
  return `file://${path.split('/').map(encodeURIComponent).join('/')}`;
}
