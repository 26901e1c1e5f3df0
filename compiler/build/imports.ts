/** Reads which names the application's own files import from one another at module level. */
import { readFile, realpath } from 'node:fs/promises';
import { extname, join } from 'node:path';

import { parseSync } from 'oxc-parser';

import { listFiles } from '../artifact/files.ts';
import type { LoaderRules } from '../discovery/loader-rules.ts';
import { NodeResolver } from '../discovery/node-resolver.ts';

const loadable = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);
/** Files that people write are smaller. */
const LONGEST = 2_000_000;

/** Keyed by the path of the imported file. Namespaces, types and `export *` add no names. */
export async function importedNames(folder: string, targets: ReadonlySet<string>, rules: LoaderRules): Promise<Map<string, Set<string>>> {
  const found = new Map<string, Set<string>>();
  const root = await realpath(folder);
  const resolver = new NodeResolver(root);
  const { entries } = await listFiles(root, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  for (const { path, stat } of entries) {
    if (!loadable.has(extname(path)) || !stat.isFile() || stat.size > LONGEST) continue;
    const { module } = parseSync(path, await readFile(join(root, path), 'utf8'));
    const types = rules.get(path)?.types ?? [];
    const take = async (specifier: string, name: string | undefined | null, start: number | undefined): Promise<void> => {
      if (name === undefined || name === null || (start !== undefined && types.includes(start))) return;
      const target = await resolver.resolve(path, specifier);
      if (target.kind === 'file' && targets.has(target.path)) found.set(target.path, (found.get(target.path) ?? new Set()).add(name));
    };
    for (const { moduleRequest, entries: imports } of module.staticImports) {
      for (const { importName, isType } of imports)
        if (!isType) await take(moduleRequest.value, importName.name, importName.start ?? undefined);
    }
    for (const { entries: exports } of module.staticExports) {
      for (const { moduleRequest, importName, isType } of exports)
        if (moduleRequest !== null && !isType) await take(moduleRequest.value, importName.name, importName.start ?? undefined);
    }
  }
  return found;
}
