/** What to do when an import fails because nothing gives its module. */

const PYTHON = /No module named '([\w.]+)'/;
const NODE = /Cannot find (?:package|module) '((?:@[\w.~-]+\/)?[\w~-][\w.~-]*)[^']*'/;

/** Returns a hint that names the import; undefined for any other error. */
export function missingImportHint(text: string): string | undefined {
  const python = PYTHON.exec(text)?.[1];
  if (python !== undefined)
    return `${python} is in no package of the project: name the package in requirements.txt, pyproject.toml or dependencies=[…]. What is installed on this machine is not used, outside of an activated virtual environment.`;
  const node = NODE.exec(text)?.[1];
  return node === undefined ? undefined : `${node} is in no package of the project: name it in package.json, and install it.`;
}
