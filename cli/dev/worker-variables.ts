import { delimiter, join } from 'node:path';

import { installRoot } from '../config.ts';

/**
 * The environment of the development server's workers: the shell's variables and those of `.env`, and a path to the SDK
 * for Python.
 */
export function workerVariables(variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const own = Object.entries(variables).filter((each): each is [string, string] => each[1] !== undefined);
  const paths = [join(installRoot, 'sdk/python'), ...(variables['PYTHONPATH'] ?? '').split(delimiter)].filter((path) => path !== '');
  // A cache beside the sources would count as a change of the project.
  return { ...Object.fromEntries(own), PYTHONPATH: paths.join(delimiter), PYTHONDONTWRITEBYTECODE: '1' };
}
