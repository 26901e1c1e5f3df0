/**
 * The header of a Python file that names its packages (PEP 723, `# /// script`). What it requests counts as `dependencies` of
 * the endpoints of that file.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { readToml } from '../programs/toml.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { decodeSource } from '../../terminal/text-file.ts';
import type { DeclaredEndpoint } from './declared.ts';

/** The pattern of the standard. */
const BLOCK = /^# \/\/\/ ([a-zA-Z0-9-]+)$\s((?:^#(?:| .*)$\s)+)^# \/\/\/$/gm;

const schema = z.looseObject({
  dependencies: z.array(z.string('must be a string'), 'must be an array of strings').default([]),
  'requires-python': z.string('must be a string').optional(),
  tool: z.looseObject({ uv: z.unknown().optional() }).optional(),
});

export interface ScriptHeader {
  readonly dependencies: readonly string[];
  readonly requiresPython: string | undefined;
  readonly warnings: readonly string[];
}

/** Returns undefined without a header. `file` is for messages. @throws CapstanError INVALID_MANIFEST when it is not valid. */
export async function readScriptHeader(source: string, file: string): Promise<ScriptHeader | undefined> {
  const blocks = [...source.replaceAll('\r\n', '\n').matchAll(BLOCK)].filter(([, kind]) => kind === 'script');
  const [block, second] = blocks;
  if (block === undefined) return undefined;
  if (second !== undefined) throw invalid(`${file}: two headers "# /// script"; a file may have one`);
  const text = (block[2] ?? '').split('\n').map((line) => line.replace(/^# ?/, ''));
  const [content] = await readToml([{ name: `the header of ${file}`, text: text.join('\n') }]);
  const read = schema.safeParse(content);
  if (!read.success)
    throw invalid(`the header of ${file}: ${read.error.issues[0]?.path.join('.') ?? ''} ${read.error.issues[0]?.message ?? ''}`);
  return {
    dependencies: read.data.dependencies,
    requiresPython: read.data['requires-python'],
    warnings:
      read.data.tool?.uv === undefined ? [] : [`the header of ${file}: [tool.uv] has no effect; [tool.uv] of pyproject.toml is read`],
  };
}

/** The headers of a project's files, each read once. */
export class ScriptHeaders {
  readonly #folder: string;
  readonly #read = new Map<string, ScriptHeader | undefined>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  get warnings(): readonly string[] {
    return [...this.#read.values()].flatMap((header) => header?.warnings ?? []);
  }

  /** Adds what the files of an endpoint request: that of the declaration, of its application, and scripts of its command. */
  async applied(endpoint: DeclaredEndpoint): Promise<DeclaredEndpoint> {
    const scripts = endpoint.settings.command.filter((each) => /^[^$/].*\.py$/.test(each) && existsSync(join(this.#folder, each)));
    const files = new Set([endpoint.file, ...(endpoint.app?.file == null ? [] : [endpoint.app.file]), ...scripts]);
    const dependencies = new Set(endpoint.settings.dependencies);
    const requiresPython: { file: string; versions: string }[] = [];
    for (const file of files) {
      const header = await this.#headerOf(file);
      for (const each of header?.dependencies ?? []) dependencies.add(each);
      if (header?.requiresPython !== undefined) requiresPython.push({ file, versions: header.requiresPython });
    }
    return { ...endpoint, requiresPython, settings: { ...endpoint.settings, dependencies: [...dependencies] } };
  }

  async #headerOf(file: string): Promise<ScriptHeader | undefined> {
    const known = this.#read.get(file);
    if (known !== undefined || this.#read.has(file)) return known;
    const header = await readScriptHeader(decodeSource(await readFile(join(this.#folder, file)), file), file);
    this.#read.set(file, header);
    return header;
  }
}

function invalid(message: string): ToolError {
  return new ToolError('INVALID_MANIFEST', message, 'The header is TOML: # dependencies = ["requests"]');
}
