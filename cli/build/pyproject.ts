/**
 * Reads the dependencies of `pyproject.toml` (PEP 621). Python parses the file; pip, which installs them anyway, has a
 * parser where Python has none.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../terminal/tool-error.ts';

const FILE = 'pyproject.toml';

const PROGRAM = `
import json, sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
try:
    found = tomllib.loads(sys.stdin.buffer.read().decode("utf-8"))
except ValueError as error:
    sys.exit(f"toml: {error}")
poetry = found.get("tool", {}).get("poetry", {}).get("dependencies", {})
print(json.dumps({"dependencies": found.get("project", {}).get("dependencies", []), "poetry": sorted(poetry)}))
`;

const answerSchema = z.object({ dependencies: z.array(z.string()), poetry: z.array(z.string()) });

export interface Pyproject {
  readonly dependencies: readonly string[];
  readonly warnings: readonly string[];
}

/** @throws CapstanError INVALID_MANIFEST when the file is not TOML or its dependencies are not a list of strings. */
export async function readPyproject(folder: string): Promise<Pyproject> {
  let text: string;
  try {
    text = await readFile(join(folder, FILE), 'utf8');
  } catch {
    return { dependencies: [], warnings: [] }; // the file is optional
  }
  // Most files name no dependencies, and starting Python takes time.
  if (!text.includes('dependencies')) return { dependencies: [], warnings: [] };
  const { dependencies, poetry } = await parse(text);
  const others = poetry.filter((name) => name !== 'python');
  const unread = dependencies.length === 0 && others.length > 0;
  return {
    dependencies,
    warnings: unread
      ? [`${FILE}: dependencies in [tool.poetry] (${others.join(', ')}) are not read; write them as dependencies of [project]`]
      : [],
  };
}

async function parse(text: string): Promise<z.output<typeof answerSchema>> {
  const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) => {
    const child = execFile('python3', ['-c', PROGRAM], (_error, out, err) => resolve({ stdout: out, stderr: err }));
    child.stdin?.end(text);
  });
  const fault = /^toml: (.*)$/m.exec(stderr)?.[1];
  if (fault !== undefined) throw new ToolError('INVALID_MANIFEST', `${FILE} is not valid TOML: ${fault}`, 'Correct the file.');
  if (stdout === '')
    throw new ToolError('CONFIG', `cannot read ${FILE}: python3 has neither tomllib nor pip`, 'Install pip: python3 -m ensurepip');
  const answer = answerSchema.safeParse(JSON.parse(stdout));
  if (answer.success) return answer.data;
  throw new ToolError('INVALID_MANIFEST', `${FILE}: dependencies of [project] must be an array of strings`, 'Correct the file.');
}
