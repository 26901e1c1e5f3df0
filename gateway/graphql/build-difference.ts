/** What differs between two builds. Pure. */
import type { ArchiveContents } from '../../lib/archive-contents.ts';
import { CapstanError } from '../../lib/errors.ts';
import type * as Schema from './gen/schema.ts';

/** Files and packages that are listed; the rest is counted. */
const MAX_LISTED = 500;

/** @throws CapstanError INVALID_ARGUMENT */
export function digestIn(field: string, text: string): string {
  if (/^[0-9a-f]{64}$/.test(text)) return text;
  throw new CapstanError('INVALID_ARGUMENT', `${field}: must be the digest of a build, 64 lower-case hex digits`, { field });
}

export function buildDifference(from: ArchiveContents, to: ArchiveContents): Schema.BuildDifference {
  const files = namesOf(from.files, to.files).flatMap((path): Schema.FileChange[] => {
    const [before, after] = [own(from.files, path), own(to.files, path)];
    if (before?.digest === after?.digest) return [];
    return [{ path, sizeBefore: before?.size ?? null, sizeAfter: after?.size ?? null }];
  });
  const packages = namesOf(from.packages, to.packages).flatMap((name): Schema.PackageChange[] => {
    const [before, after] = [own(from.packages, name), own(to.packages, name)];
    return before === after ? [] : [{ name, before: before ?? null, after: after ?? null }];
  });
  return {
    files: files.slice(0, MAX_LISTED),
    filesOmitted: Math.max(0, files.length - MAX_LISTED),
    packages: packages.slice(0, MAX_LISTED),
    packagesOmitted: Math.max(0, packages.length - MAX_LISTED),
  };
}

function own<T>(values: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function namesOf(one: object, other: object): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].sort();
}
