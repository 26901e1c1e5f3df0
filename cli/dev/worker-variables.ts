import { delimiter, join } from 'node:path';

import { installRoot } from '../config.ts';

export interface PythonPackages {
  /** Folder of the packages. */
  readonly path: string;
  /** Folder of their programs. */
  readonly scripts: string;
}

/**
 * The environment of the development server's workers: the shell's variables and those of `.env`, with the SDK for Python
 * and the project's packages on its paths.
 */
export function workerVariables(
  variables: Readonly<Record<string, string | undefined>>,
  packages: PythonPackages | null,
): Record<string, string> {
  const own = Object.entries(variables).filter((each): each is [string, string] => each[1] !== undefined);
  const path = listed(packages?.scripts, variables['PATH']);
  const modules = listed(join(installRoot, 'sdk/python'), packages?.path, variables['PYTHONPATH']);
  // A cache beside the sources would count as a change of the project.
  return { ...Object.fromEntries(own), ...(path === '' ? {} : { PATH: path }), PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: '1' };
}

function listed(...paths: readonly (string | undefined)[]): string {
  return paths
    .flatMap((each) => (each ?? '').split(delimiter))
    .filter((each) => each !== '')
    .join(delimiter);
}
