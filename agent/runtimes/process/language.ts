/** Detects the language of a function's module. */
import { existsSync } from 'node:fs';
import { extname, join } from 'node:path';

export type Language = 'node' | 'python';

/** By the module's extension; a name without one is Python if the build has such a Python file. */
export function languageOf(folder: string, module: string): Language {
  if (extname(module) === '.py') return 'python';
  const names = module.includes('/') ? [module] : [module, module.replaceAll('.', '/')];
  const isPython = names.some((name) => existsSync(join(folder, `${name}.py`)) || existsSync(join(folder, name, '__init__.py')));
  return isPython ? 'python' : 'node';
}
