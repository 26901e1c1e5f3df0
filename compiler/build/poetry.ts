/** Converts Poetry's own dependencies (`[tool.poetry.dependencies]`) to requirements that every installer reads. */
import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';

const detail = z.looseObject({
  version: z.string().optional(),
  extras: z.array(z.string()).default([]),
  markers: z.string().optional(),
  python: z.string().optional(),
  optional: z.boolean().default(false),
  git: z.string().optional(),
  rev: z.string().optional(),
  tag: z.string().optional(),
  branch: z.string().optional(),
  subdirectory: z.string().optional(),
  path: z.string().optional(),
  url: z.string().optional(),
});
type Detail = z.output<typeof detail>;
export const poetrySchema = z.record(z.string(), z.union([z.string(), detail, z.array(z.union([z.string(), detail]))]));

/** Without `python` and without optional packages. @throws CapstanError INVALID_MANIFEST for a version that cannot be read. */
export function poetryRequirements(table: z.output<typeof poetrySchema>): string[] {
  return Object.entries(table).flatMap(([name, value]) =>
    name.toLowerCase() === 'python'
      ? []
      : (Array.isArray(value) ? value : [value]).flatMap((each) => {
          const found = typeof each === 'string' ? detail.parse({ version: each }) : each;
          return found.optional ? [] : [requirementOf(name, found)];
        }),
  );
}

function requirementOf(name: string, found: Detail): string {
  const markers = [
    ...(found.python === undefined ? [] : pythonMarkers(versionsOf(found.python, `python of ${name}`))),
    ...(found.markers === undefined ? [] : [`(${found.markers})`]),
  ];
  const extras = found.extras.length === 0 ? '' : `[${found.extras.join(',')}]`;
  const source = sourceOf(found);
  const versions = found.version === undefined ? '' : versionsOf(found.version, name).join(',');
  const suffix = markers.length === 0 ? '' : ` ; ${markers.join(' and ')}`;
  return source === null ? `${name}${extras}${versions}${suffix}` : `${name}${extras} @ ${source}${suffix}`;
}

function sourceOf({ git, rev, tag, branch, subdirectory, path, url }: Detail): string | null {
  if (path !== undefined) return path;
  if (url !== undefined) return url;
  if (git === undefined) return null;
  const at = rev ?? tag ?? branch;
  const address = /^\w+:\/\//.test(git) ? git : `ssh://${git.replace(':', '/')}`;
  return `git+${address}${at === undefined ? '' : `@${at}`}${subdirectory === undefined ? '' : `#subdirectory=${subdirectory}`}`;
}

function pythonMarkers(versions: readonly string[]): string[] {
  return versions.map((each) =>
    each.replace(
      /^([<>=!~]+)(.*)$/,
      (_, sign: string, version: string) =>
        `${version.split('.').length > 2 ? 'python_full_version' : 'python_version'} ${sign} "${version}"`,
    ),
  );
}

/** `^1.2` → `>=1.2,<2`. An empty list means any version. */
export function versionsOf(text: string, name: string): string[] {
  if (text.includes('|'))
    throw new ToolError(
      'INVALID_MANIFEST',
      `pyproject.toml: the version ${text} of ${name} in [tool.poetry.dependencies] has alternatives, which requirements cannot express`,
      'Use one range, such as >=1,<3.',
    );
  return text.split(/\s*,\s*|\s+(?=[\^~<>=!])/).flatMap((each) => clauseOf(each.trim(), name));
}

function clauseOf(text: string, name: string): string[] {
  if (text === '' || text === '*') return [];
  const [, sign = '', version = ''] = /^(\^|~=|~|>=|<=|==|!=|>|<|=)?\s*v?(\S+)$/.exec(text) ?? [];
  const parts = version.split('.').map(Number);
  const [major = 0, minor = 0, patch = 0] = parts.map((each) => (Number.isNaN(each) ? 0 : each));
  if (!/^\d+(\.(\d+|\*))*((\.|-)?[a-z]+[.\d]*)?$/i.test(version))
    throw new ToolError(
      'INVALID_MANIFEST',
      `pyproject.toml: ${text} is not a version of ${name} in [tool.poetry.dependencies]`,
      'Correct the version.',
    );
  switch (sign) {
    case '^': {
      const length = parts.length;
      const end = major > 0 || length === 1 ? `${major + 1}` : minor > 0 || length === 2 ? `0.${minor + 1}` : `0.0.${patch + 1}`;
      return [`>=${version}`, `<${end}`];
    }
    case '~':
      return [`>=${version}`, `<${parts.length === 1 ? major + 1 : `${major}.${minor + 1}`}`];
    case '':
    case '=':
      return [`==${version}`];
    default:
      return [`${sign}${version}`];
  }
}
