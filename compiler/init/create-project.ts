/** Writes the files of a new project. */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { errnoOf } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { pythonProject } from './python-project.ts';
import { typescriptProject } from './typescript-project.ts';

/** Returns the names of the files. @throws CapstanError ALREADY_EXISTS when the folder exists and is not empty. */
export async function createProject(parent: string, name: string, language: 'python' | 'typescript'): Promise<string[]> {
  const folder = join(parent, name);
  try {
    if ((await readdir(folder)).length > 0)
      throw new ToolError('ALREADY_EXISTS', `${folder} already exists and is not empty`, 'Choose another name.');
  } catch (cause) {
    if (cause instanceof CapstanError) throw cause;
    const code = errnoOf(cause) ?? String(cause);
    if (code !== 'ENOENT') throw new ToolError('ALREADY_EXISTS', `${folder} is not a folder (${code})`, 'Choose another name.', { cause });
  }
  await mkdir(folder, { recursive: true });
  const files = language === 'python' ? pythonProject(name) : typescriptProject(name);
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  return Object.keys(files);
}
