/** Members of an npm, yarn or pnpm workspace: a dependency on one comes from its folder, never from a registry. */
import { glob } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';

type Dependencies = Readonly<Record<string, string>>;

const manifestSchema = z.looseObject({
  name: z.string().optional(),
  dependencies: z.record(z.string(), z.string()).default({}),
  workspaces: z.union([z.array(z.string()), z.looseObject({ packages: z.array(z.string()).default([]) })]).optional(),
});
type Manifest = z.output<typeof manifestSchema>;

interface Member {
  readonly folder: string;
  readonly manifest: Manifest;
}

/** A specification that says itself where the package is. */
const ELSEWHERE = /^(file:|link:|portal:|npm:|git|github:|https?:|\.{0,2}\/)|\//;

/**
 * Returns the dependencies with members in place of their names, those of members included. @throws CapstanError
 * INVALID_MANIFEST for `workspace:` without such a member.
 */
export async function withMembers(folder: string, dependencies: Dependencies): Promise<Dependencies> {
  const names = Object.keys(dependencies);
  if (names.length === 0) return dependencies;
  const members = await membersFor(folder);
  const found: Record<string, string> = { ...dependencies };
  const waiting = Object.entries(dependencies).map(([name, spec]) => ({ name, spec, by: 'package.json' }));
  const seen = new Set<string>();
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    const member = isElsewhere(each.spec) ? undefined : members.get(each.name);
    if (member === undefined) {
      if (each.spec.startsWith('workspace:'))
        throw new ToolError(
          'INVALID_MANIFEST',
          `${each.by}: dependencies.${each.name}: ${each.spec}, and no member of the workspace has this name`,
          'Add the member to the workspace, or name its path.',
        );
      continue;
    }
    // What the project itself takes from elsewhere stays.
    const own = dependencies[each.name];
    if (own === undefined || !isElsewhere(own)) found[each.name] = `file:${member.folder}`;
    if (seen.has(each.name)) continue;
    seen.add(each.name);
    const by = join(member.folder, 'package.json');
    waiting.push(...Object.entries(member.manifest.dependencies).map(([name, spec]) => ({ name, spec, by })));
  }
  return found;
}

function isElsewhere(spec: string): boolean {
  return !spec.startsWith('workspace:') && ELSEWHERE.test(spec);
}

async function membersFor(folder: string): Promise<ReadonlyMap<string, Member>> {
  for (let root = folder; ; root = dirname(root)) {
    const patterns = await patternsOf(root);
    if (patterns.length > 0) return membersOf(root, patterns);
    if (dirname(root) === root) return new Map();
  }
}

async function patternsOf(root: string): Promise<readonly string[]> {
  const { workspaces = [] } = (await readManifest(root)) ?? {};
  const listed = Array.isArray(workspaces) ? workspaces : workspaces.packages;
  if (listed.length > 0) return listed;
  const pnpm = (await readText(root, 'pnpm-workspace.yaml')) ?? '';
  const [, rows = ''] = /^packages:[^\S\n]*\n((?:[^\S\n]*(?:-.*|#.*)?\n?)*)/m.exec(pnpm) ?? [];
  return [...rows.matchAll(/^\s*-\s*(['"]?)([^'"\n#]+?)\1\s*(?:#.*)?$/gm)].map(([, , pattern = '']) => pattern);
}

async function membersOf(root: string, patterns: readonly string[]): Promise<ReadonlyMap<string, Member>> {
  const wanted = patterns.filter((each) => !each.startsWith('!'));
  const exclude = ['**/node_modules/**', ...patterns.filter((each) => each.startsWith('!')).map((each) => each.slice(1))];
  const members = new Map<string, Member>();
  for await (const path of glob(wanted, { cwd: root, exclude })) {
    const folder = resolve(root, path);
    const manifest = await readManifest(folder);
    if (manifest?.name !== undefined) members.set(manifest.name, { folder, manifest });
  }
  return members;
}

/** Undefined for a file that is missing or damaged: npm reports it. */
async function readManifest(folder: string): Promise<Manifest | undefined> {
  const text = await readText(folder, 'package.json');
  try {
    return text === null ? undefined : manifestSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
