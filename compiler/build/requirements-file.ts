/** Reads `requirements.txt` with the files that it includes, and the options of pip that such a file may have. */
import { readFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';

import { ToolError } from '../../terminal/tool-error.ts';
import { decodeText, readText } from '../../terminal/text-file.ts';
import { DEFAULT_INDEXES, type PackageIndexes } from './python-installer.ts';

export const REQUIREMENTS = 'requirements.txt';
/** Options without effect on what a build contains. */
const HARMLESS =
  /^--(prefer-binary|use-pep517|require-hashes|progress-bar|no-cache-dir|use-feature|no-binary|only-binary|trusted-host)(=|\s|$)/;
/** Files that include one another; people write fewer. */
const MAX_FILES = 50;

export interface RequirementsFile {
  /** Paths in it are absolute. */
  readonly requirements: readonly string[];
  readonly constraints: readonly string[];
  readonly indexes: PackageIndexes;
  /** `numpy==2.1.0` → `sha256:…`, of exact requirements. */
  readonly hashes: ReadonlyMap<string, readonly string[]>;
}

interface Found {
  readonly requirements: string[];
  readonly constraints: string[];
  index: string | undefined;
  readonly extraIndexes: string[];
  readonly findLinks: string[];
  noIndex: boolean;
  pre: boolean;
  readonly hashes: Map<string, readonly string[]>;
  readonly files: Set<string>;
}

/**
 * An absent file has no requirements. `lookUp` has the values of `${NAME}`. @throws CapstanError INVALID_MANIFEST with
 * file, line and rule.
 */
export async function readRequirements(folder: string, lookUp: (name: string) => string | undefined): Promise<RequirementsFile> {
  const found: Found = {
    requirements: [],
    constraints: [],
    ...DEFAULT_INDEXES,
    extraIndexes: [],
    findLinks: [],
    hashes: new Map(),
    files: new Set(),
  };
  const text = await readText(folder, REQUIREMENTS);
  if (text !== null) await readLines(text, resolve(folder, REQUIREMENTS), { folder, found, lookUp, isConstraint: false });
  const { requirements, constraints, hashes, index, extraIndexes, findLinks, noIndex, pre } = found;
  return { requirements, constraints, hashes, indexes: { index, extraIndexes, findLinks, noIndex, pre } };
}

interface Reading {
  readonly folder: string;
  readonly found: Found;
  readonly lookUp: (name: string) => string | undefined;
  readonly isConstraint: boolean;
}

async function readLines(text: string, file: string, reading: Reading): Promise<void> {
  const { found, lookUp } = reading;
  found.files.add(file);
  const lines = text.split(/\r?\n/);
  for (let index = 0; index < lines.length; index += 1) {
    const place = `${relative(reading.folder, file)}:${index + 1}`;
    let line = lines[index] ?? '';
    while (line.endsWith('\\') && index + 1 < lines.length) line = line.slice(0, -1) + (lines[(index += 1)] ?? '');
    line = line
      .replace(/(^|\s)#.*$/, '')
      .trim()
      .replaceAll(/\$\{([A-Z0-9_]+)\}/g, (whole, name: string) => lookUp(name) ?? whole);
    if (line === '') continue;
    if (line.startsWith('-')) await readOption(line, place, { ...reading, file });
    else takeRequirement(line, dirname(file), reading);
  }
}

async function readOption(line: string, place: string, reading: Reading & { readonly file: string }): Promise<void> {
  const { found, file } = reading;
  const [, option = '', rest = ''] =
    /^(--?[\w-]+?)(?:[=\s]\s*(.*)|(?<=^-[a-z])(.+))?$/.exec(line)?.map((each, index, all) => (index === 2 ? (each ?? all[3]) : each)) ?? [];
  const value = rest.replace(/^(['"])(.*)\1$/, '$2').trim();
  switch (option) {
    case '-r':
    case '--requirement':
      return include(value, place, { ...reading, isConstraint: reading.isConstraint });
    case '-c':
    case '--constraint':
      return include(value, place, { ...reading, isConstraint: true });
    case '-e':
    case '--editable':
      return takeRequirement(value, dirname(file), reading);
    case '-i':
    case '--index-url':
    case '--pypi-url':
      found.index = value;
      return;
    case '--extra-index-url':
      found.extraIndexes.push(value);
      return;
    case '-f':
    case '--find-links':
      found.findLinks.push(isPath(value) ? resolve(dirname(file), value) : value);
      return;
    case '--no-index':
      found.noIndex = true;
      return;
    case '--pre':
      found.pre = true;
      return;
    default:
      if (HARMLESS.test(line)) return;
      throw new ToolError(
        'INVALID_MANIFEST',
        `${place}: the option ${option || line} is not supported`,
        'Remove it, or declare the packages in pyproject.toml.',
      );
  }
}

async function include(path: string, place: string, reading: Reading & { readonly file: string }): Promise<void> {
  const target = resolve(dirname(reading.file), path);
  if (reading.found.files.has(target)) return;
  if (reading.found.files.size >= MAX_FILES)
    throw new ToolError('INVALID_MANIFEST', `${place}: more than ${MAX_FILES} files nested by -r or -c`, 'Merge some of them.');
  let bytes: Buffer;
  try {
    bytes = await readFile(target);
  } catch (cause) {
    throw new ToolError('INVALID_MANIFEST', `${place}: cannot read ${path}`, 'Correct the path.', { cause });
  }
  await readLines(decodeText(bytes, relative(reading.folder, target)), target, reading);
}

function takeRequirement(line: string, folder: string, { found, isConstraint }: Reading): void {
  const [first = '', ...rest] = line.split(/\s+(?=--)/);
  const requirement = isPath(first) ? resolve(folder, first) : first;
  (isConstraint ? found.constraints : found.requirements).push(requirement);
  const hashes = rest.flatMap((each) => /^--hash[=\s]\s*(\w+:[0-9a-f]+)$/.exec(each)?.[1] ?? []);
  if (hashes.length > 0) found.hashes.set(exactName(requirement), hashes);
}

/** `NumPy == 2.1 ; marker` → `numpy==2.1`. */
export function exactName(requirement: string): string {
  const [, name = '', version = ''] = /^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;,]+)/.exec(requirement) ?? [];
  return name === '' ? requirement : `${name.toLowerCase().replaceAll(/[-_.]+/g, '-')}==${version}`;
}

/** A path as pip knows it: relative or absolute, or a wheel in this folder. */
export function isPath(text: string): boolean {
  return /^(\.{1,2}(\/|$)|\/)/.test(text) || (/^[^@:]+\.(whl|tar\.gz|zip)$/.test(text) && !text.includes(' '));
}
