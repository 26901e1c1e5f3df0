/** Reads which names the application's own files import from one another at module level. */
import { readFile } from 'node:fs/promises';
import { extname, join, posix } from 'node:path';

import { parseSync } from 'oxc-parser';

import { listFiles } from '../deploy/files.ts';

const loadable = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);
/** Files that people write are smaller. */
const LONGEST = 2_000_000;

/** Keyed by the path of the imported file. Namespaces and `export *` add no names. */
export async function importedNames(folder: string, targets: ReadonlySet<string>): Promise<Map<string, Set<string>>> {
  const found = new Map<string, Set<string>>();
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  for (const { path, stat } of entries) {
    if (!loadable.has(extname(path)) || !stat.isFile() || stat.size > LONGEST) continue;
    const { module } = parseSync(path, await readFile(join(folder, path), 'utf8'));
    const take = (specifier: string, name: string | null): void => {
      const target = specifier.startsWith('.') ? targetOf(posix.join(posix.dirname(path), specifier), targets) : undefined;
      if (target !== undefined && name !== null) found.set(target, (found.get(target) ?? new Set()).add(name));
    };
    for (const { moduleRequest, entries: imports } of module.staticImports) {
      for (const { importName, isType } of imports) if (!isType) take(moduleRequest.value, importName.name ?? null);
    }
    for (const { entries: exports } of module.staticExports) {
      for (const { moduleRequest, importName, isType } of exports)
        if (moduleRequest !== null && !isType) take(moduleRequest.value, importName.name ?? null);
    }
  }
  return found;
}

function targetOf(path: string, targets: ReadonlySet<string>): string | undefined {
  return [path, path.replace(/\.js$/, '.ts'), path.replace(/\.mjs$/, '.mts')].find((each) => targets.has(each));
}
