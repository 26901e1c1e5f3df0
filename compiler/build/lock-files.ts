/** Reads the versions that a project's lock file names: `uv.lock`, `poetry.lock` or `pylock.toml`. */
import { createHash } from 'node:crypto';
import { resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import { normalised } from './python-names.ts';
import { readToml } from '../programs/toml.ts';

/** The first that exists counts. */
const FILES = ['uv.lock', 'poetry.lock', 'pylock.toml'] as const;

const hashed = z.looseObject({ hash: z.string().optional(), hashes: z.record(z.string(), z.string()).optional() });
const packageSchema = z.looseObject({
  name: z.string(),
  version: z.string().optional(),
  /** uv: when the locked versions of a package differ by platform. */
  'resolution-markers': z.array(z.string()).default([]),
  marker: z.string().optional(),
  source: z.record(z.string(), z.unknown()).optional(),
  sdist: hashed.optional(),
  wheels: z.array(hashed).default([]),
  files: z.array(hashed).default([]),
  vcs: z.looseObject({ type: z.string(), url: z.string().optional(), 'commit-id': z.string() }).optional(),
  archive: z.looseObject({ url: z.string().optional() }).optional(),
  directory: z.looseObject({ path: z.string() }).optional(),
});
type LockedPackage = z.output<typeof packageSchema>;

export interface LockFile {
  readonly name: string;
  readonly text: string;
  /** SHA-256 of the text, hex. */
  readonly digest: string;
}

export interface Locked {
  /** `numpy==2.1.0 ; marker`. */
  readonly constraints: readonly string[];
  /** `numpy==2.1.0` → `sha256:…`. */
  readonly hashes: ReadonlyMap<string, readonly string[]>;
  /** Normalised names of all its packages. */
  readonly names: ReadonlySet<string>;
}

export async function findLockFile(folder: string): Promise<LockFile | null> {
  for (const name of FILES) {
    const text = await readText(folder, name);
    if (text !== null) return { name, text, digest: createHash('sha256').update(text).digest('hex') };
  }
  return null;
}

/** @throws CapstanError INVALID_MANIFEST when the file is not a lock file. */
export async function readLockFile({ name, text }: LockFile, folder: string): Promise<Locked> {
  const [content] = await readToml([{ name, text }]);
  const key = name === 'pylock.toml' ? 'packages' : 'package';
  const read = z.looseObject({ [key]: z.array(packageSchema).default([]) }).safeParse(content);
  if (!read.success)
    throw new ToolError(
      'INVALID_MANIFEST',
      `${name} is not a valid lock file: ${z.prettifyError(read.error).split('\n')[0] ?? ''}`,
      'Regenerate it with the tool that wrote it.',
    );
  const packages = read.data[key] as readonly LockedPackage[];
  const constraints: string[] = [];
  const hashes = new Map<string, readonly string[]>();
  for (const each of packages) {
    const exact = exactOf(each, folder);
    if (exact === null) continue;
    const markers = [
      ...(each['resolution-markers'].length === 0 ? [] : [each['resolution-markers'].map((one) => `(${one})`).join(' or ')]),
      ...(each.marker === undefined ? [] : [each.marker]),
    ];
    constraints.push(markers.length === 0 ? exact : `${exact} ; ${markers.map((one) => `(${one})`).join(' and ')}`);
    const known = [...each.files, ...each.wheels, ...(each.sdist === undefined ? [] : [each.sdist])].flatMap(hashesOf);
    if (known.length > 0) hashes.set(exact, known);
  }
  return { constraints, hashes, names: new Set(packages.map((each) => normalised(each.name))) };
}

/** Null for the project itself and for paths, which the project's own requirements name. */
function exactOf(each: LockedPackage, folder: string): string | null {
  const name = normalised(each.name);
  const source = each.source ?? {};
  const text = (key: string): string | undefined => (typeof source[key] === 'string' ? source[key] : undefined);
  if (each.directory !== undefined || ['virtual', 'editable', 'directory', 'path'].some((key) => key in source)) return null;
  if (text('type') === 'directory' || text('type') === 'file') return null;
  const git = text('git');
  if (git !== undefined) return `${name} @ git+${git.replace(/\?[^#]*/, '').replace('#', '@')}`;
  if (text('type') === 'git') return `${name} @ git+${text('url') ?? ''}@${text('resolved_reference') ?? text('reference') ?? ''}`;
  if (each.vcs?.url !== undefined) return `${name} @ ${each.vcs.type}+${each.vcs.url}@${each.vcs['commit-id']}`;
  const url = each.archive?.url ?? (text('type') === 'url' ? text('url') : 'registry' in source ? undefined : text('url'));
  if (url !== undefined && text('type') !== 'legacy') return `${name} @ ${/^\w+:\/\//.test(url) ? url : resolve(folder, url)}`;
  return each.version === undefined ? null : `${name}==${each.version}`;
}

function hashesOf({ hash, hashes }: z.output<typeof hashed>): string[] {
  return [...(hash === undefined ? [] : [hash]), ...Object.entries(hashes ?? {}).map(([kind, value]) => `${kind}:${value}`)];
}
