import { delimiter, join } from 'node:path';

import { installRoot } from '../terminal/config.ts';

/** How workers reach a debugger. */
export interface DebugVariables {
  /** Folder of the module `capstan_debug`. */
  readonly modules: string;
  /** Socket of the sessions of breakpoint(). */
  readonly socket: string;
  /** Port of debugpy, 0 for a free one; undefined for none. */
  readonly debugpy: number | undefined;
}

export interface PythonPackages {
  /** Folder of the packages. */
  readonly path: string;
  /** Folder of their programs. */
  readonly scripts: string;
}

/**
 * The environment of the development server's workers: the shell's variables and those of `.env`, with the SDK for Python
 * and the project's packages on its paths. `roots`: folders that imports of the project start from, absolute. `python`: the
 * programs of the workers' own Python; undefined where they have the developer's.
 */
export function workerVariables(
  variables: Readonly<Record<string, string | undefined>>,
  packages: PythonPackages | null,
  { debug, roots, python }: { readonly debug: DebugVariables; readonly roots: readonly string[]; readonly python: string | undefined },
): Record<string, string> {
  const own = Object.entries(variables).filter((each): each is [string, string] => each[1] !== undefined);
  const path = listed(packages?.scripts, python, variables['PATH']);
  const modules = listed(join(installRoot, 'sdk/python'), debug.modules, ...roots, packages?.path, variables['PYTHONPATH']);
  const debugging = {
    CAPSTAN_DEBUG_SOCKET: debug.socket,
    // A hook of the user's own stays.
    PYTHONBREAKPOINT: variables['PYTHONBREAKPOINT'] ?? 'capstan_debug.enter',
    ...(debug.debugpy === undefined ? {} : { CAPSTAN_DEBUGPY: String(debug.debugpy) }),
  };
  // A cache beside the sources would count as a change of the project.
  return {
    ...Object.fromEntries(own),
    ...debugging,
    ...(path === '' ? {} : { PATH: path }),
    // For programs that name the machine's Python by its path.
    ...(python === undefined ? {} : { PYTHONNOUSERSITE: '1' }),
    PYTHONPATH: modules,
    PYTHONDONTWRITEBYTECODE: '1',
  };
}

function listed(...paths: readonly (string | undefined)[]): string {
  return paths
    .flatMap((each) => (each ?? '').split(delimiter))
    .filter((each) => each !== '')
    .join(delimiter);
}
