/** Resolves and installs Python packages with uv. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { InstallSpec, PythonInstaller, PythonWanted, Resolution, ResolvedPackage } from './python-installer.ts';
import { normalised } from './python-names.ts';
import type { PipSettings } from './pip-settings.ts';
import { runInstaller, type Ended } from '../programs/run-installer.ts';
import { readToml } from '../programs/toml.ts';

/** The newest C library that hosts can be expected to have (Debian 11, Ubuntu 20.04). */
const PLATFORM = 'x86_64-manylinux_2_28';
/** How an error without a usable index begins or what it contains. */
const UNREACHABLE =
  /error sending request|Failed to fetch|Could not connect|dns error|invalid peer certificate|status code 40[137]|network was disabled/i;

export interface UvProgram {
  readonly path: string;
  /** uv's own cache; undefined for that of the user. */
  readonly cacheDir: string | undefined;
  /** Path of this machine's Python. */
  readonly python: string;
  /** The user's settings of pip, which uv does not read. */
  readonly settings: PipSettings;
}

export function uvInstaller(program: UvProgram): PythonInstaller {
  return {
    name: 'uv',
    resolve: async (wanted) => resolve(program, wanted),
    install: async (wanted, order) => install(program, wanted, order),
  };
}

async function resolve(program: UvProgram, wanted: PythonWanted): Promise<Resolution> {
  const requirements = join(wanted.scratch, 'requirements.in');
  const constraints = join(wanted.scratch, 'constraints.txt');
  await writeFile(requirements, linesOf([...indexLines(program, wanted), ...wanted.requirements]));
  await writeFile(constraints, linesOf(wanted.constraints));
  const compile = async (args: readonly string[]): Promise<Ended> =>
    runInstaller(
      program.path,
      ['pip', 'compile', requirements, '--no-header', ...(wanted.alone === true ? ['--no-deps'] : []), ...common(program, wanted), ...args],
      {
        cwd: wanted.folder,
      },
    );
  const written = ['--constraint', constraints, '--annotation-style', 'line', '--no-strip-extras'];
  let wheels: readonly string[] = wanted.isForHere ? [] : ['--only-binary', ':all:'];
  let lines = await compile([...written, ...wheels]);
  const hasDirect = wanted.requirements.some((each) => isDirect(each));
  if (!lines.ok && wheels.length > 0 && !isUnreachable(lines) && (wanted.mayBuild || hasDirect)) {
    const first = lines;
    wheels = [];
    lines = await compile(written);
    if (!lines.ok) lines = wanted.mayBuild ? lines : first;
  }
  if (!lines.ok) throw failed(lines, wanted);
  const pins = join(wanted.scratch, 'pins.txt');
  const pinned = graphOf(lines.stdout);
  await writeFile(
    pins,
    linesOf([...pinned.values()].flatMap(({ requirement }) => (isDirect(requirement) ? [] : [withoutExtras(requirement)]))),
  );
  const lock = await compile(['--constraint', pins, '--format', 'pylock.toml', ...wheels]);
  if (!lock.ok) throw failed(lock, wanted);
  const sources = await lockedOf(lock.stdout);
  return resolutionOf(pinned, sources, { wanted, isBuilt: wheels.length === 0 && wanted.mayBuild });
}

interface Pinned {
  readonly requirement: string;
  /** What requested it: names, or `-r <file>`. */
  readonly via: readonly string[];
}

/** Reads lines such as `numpy==2.1.0    # via pandas, -r requirements.in`. */
export function graphOf(text: string): Map<string, Pinned> {
  const found = new Map<string, Pinned>();
  for (const whole of text.split('\n')) {
    // A member of a uv workspace; a build installs a copy.
    const line = whole.replace(/^-e (?=\S)/, '');
    const [, requirement, via = ''] = /^(\S[^#]*?(?:#\S[^#]*?)?)\s*(?:\s# via (.*))?$/.exec(line) ?? [];
    if (requirement === undefined || requirement === '' || requirement.startsWith('#')) continue;
    found.set(requirement, { requirement, via: via.split(', ').filter((each) => each !== '') });
  }
  return found;
}

interface Source {
  readonly name: string;
  readonly bytes: number | null;
  readonly isDirect: boolean;
  /** Path of a folder or file, where the line has no name. */
  readonly path: string | null;
  readonly hasWheel: boolean;
}

async function lockedOf(text: string): Promise<Source[]> {
  const [lock] = await readToml([{ name: 'pylock.toml', text }]);
  const packages = (lock as { packages?: readonly Record<string, unknown>[] } | undefined)?.packages ?? [];
  return packages.map((each) => {
    const wheels = Array.isArray(each['wheels']) ? (each['wheels'] as readonly { size?: unknown }[]) : [];
    const sdist = each['sdist'] as { size?: unknown } | undefined;
    const direct = (each['archive'] ?? each['directory'] ?? each['vcs']) as { path?: unknown; size?: unknown } | undefined;
    const size = direct?.size ?? wheels[0]?.size ?? sdist?.size;
    return {
      name: normalised(String(each['name'])),
      bytes: typeof size === 'number' ? size : null,
      isDirect: direct !== undefined,
      path: typeof direct?.path === 'string' ? direct.path : null,
      hasWheel: wheels.length > 0 || direct !== undefined,
    };
  });
}

function resolutionOf(
  pinned: ReadonlyMap<string, Pinned>,
  sources: readonly Source[],
  { wanted, isBuilt }: { readonly wanted: PythonWanted; readonly isBuilt: boolean },
): Resolution {
  const byName = new Map(sources.map((each) => [each.name, each]));
  const packages: ResolvedPackage[] = [];
  const needs = new Map<string, Set<string>>();
  const roots: string[] = [];
  for (const { requirement, via } of pinned.values()) {
    const source =
      byName.get(nameOf(requirement)) ?? sources.find(({ path }) => path !== null && requirement.endsWith(path.replace(/^(\.\.?\/)+/, '')));
    const name = source?.name ?? nameOf(requirement);
    if (source?.hasWheel === false && !isBuilt && !wanted.isForHere) throw noWheel(requirement, wanted);
    packages.push({
      name,
      requirement: withoutExtras(requirement),
      bytes: source?.bytes ?? null,
      isDirect: source?.isDirect ?? isDirect(requirement),
    });
    if (!needs.has(name)) needs.set(name, new Set());
    for (const each of via) {
      if (each.startsWith('-') || each.includes('/')) roots.push(name);
      else needs.set(normalised(each), (needs.get(normalised(each)) ?? new Set()).add(name));
    }
  }
  return { packages, needs, roots, isBuilt };
}

async function install(program: UvProgram, wanted: PythonWanted, order: InstallSpec): Promise<void> {
  const path = join(wanted.scratch, 'exact.txt');
  const lines = order.packages.map(({ requirement }) =>
    [requirement, ...(order.hashes.get(requirement) ?? []).map((hash) => `--hash=${hash}`)].join(' '),
  );
  await writeFile(path, linesOf([...indexLines(program, wanted), ...lines]));
  const wheels =
    order.isBuilt || wanted.isForHere
      ? []
      : order.packages.flatMap(({ name, isDirect: direct }) => (direct ? [] : ['--only-binary', name]));
  // uv takes a folder whose project file did not change for the same.
  const fresh = order.packages.flatMap(({ name, isDirect: direct }) => (direct ? ['--refresh-package', name] : []));
  const ended = await runInstaller(
    program.path,
    ['pip', 'install', '--target', order.target, '--no-deps', '--requirement', path, ...common(program, wanted), ...wheels, ...fresh],
    {
      cwd: wanted.folder,
      onLine: (line) => {
        const [, verb, name = ''] = /^\s*(Downloading|Downloaded|Building|Built) (\S+)/.exec(line) ?? [];
        if (verb !== undefined) order.downloading(normalised(name.replace(/==.*/, '')), verb === 'Downloaded' || verb === 'Built');
      },
    },
  );
  if (!ended.ok) throw failed(ended, wanted);
}

/** Where packages are found, as lines of a requirements file: addresses may contain credentials, which arguments would show to every user. */
function indexLines({ settings }: UvProgram, { indexes }: PythonWanted): string[] {
  const index = indexes.index ?? settings.index;
  const links = [...indexes.findLinks, ...settings.findLinks].filter((each) => /^\w+:\/\//.test(each) || existsSync(each));
  return [
    ...(index === undefined ? [] : [`--index-url ${index}`]),
    ...[...indexes.extraIndexes, ...settings.extraIndexes].map((each) => `--extra-index-url ${each}`),
    ...links.map((each) => `--find-links ${each}`),
  ];
}

function common({ cacheDir, python, settings }: UvProgram, { indexes, version, isForHere }: PythonWanted): string[] {
  return [
    ...(cacheDir === undefined ? [] : ['--cache-dir', cacheDir]),
    '--python',
    python,
    '--no-python-downloads',
    '--color',
    'never',
    ...(isForHere ? [] : ['--python-version', version, '--python-platform', PLATFORM]),
    ...(indexes.noIndex || settings.noIndex ? ['--no-index'] : []),
    ...(indexes.pre ? ['--prerelease', 'allow'] : []),
    ...settings.trustedHosts.flatMap((each) => ['--allow-insecure-host', each]),
  ];
}

function isUnreachable({ stderr }: Ended): boolean {
  return UNREACHABLE.test(stderr);
}

function failed(ended: Ended, { version }: PythonWanted): CapstanError {
  const text = ended.stderr.slice(Math.max(0, ended.stderr.search(/^\s*(error|×)/m))).trim();
  const fault = text
    .split('\n')
    .map((line) => line.replace(/^error: /, '').trimEnd())
    .filter((line) => line !== '')
    .slice(0, 12)
    .join('\n  ');
  if (isUnreachable(ended)) return new CapstanError('UNAVAILABLE', fault);
  const hint = /no (usable )?wheels|Building source distributions is disabled|was not found|unsatisfiable|no version/i.test(text)
    ? `Packages must have a wheel for Linux x86_64 and Python ${version} (--python <version>), unless the build runs on such a machine.`
    : 'Correct the dependencies; the settings of uv and pip (index, proxy) apply.';
  return new ToolError('INVALID_MANIFEST', `installing Python packages failed:\n  ${fault}`, hint);
}

function noWheel(requirement: string, { version }: PythonWanted): ToolError {
  return new ToolError(
    'INVALID_MANIFEST',
    `installing Python packages failed:\n  ${requirement} has no wheel for Linux x86_64 and Python ${version}`,
    'Build on Linux x86_64 with that Python, or use a version of the package that has one.',
  );
}

/** A path, a URL or a repository. */
function isDirect(requirement: string): boolean {
  return /^(\.{0,2}\/|\w+(\+\w+)?:)|^[\w.[\], -]+ ?@ /.test(requirement);
}

function nameOf(requirement: string): string {
  return normalised(/^[A-Za-z0-9][\w.-]*/.exec(requirement)?.[0] ?? requirement);
}

/** `fastapi[standard]==0.1` → `fastapi==0.1`; an exact version needs no extras, as nothing further is installed. */
function withoutExtras(requirement: string): string {
  return isDirect(requirement)
    ? requirement
    : requirement
        .replace(/\[[^\]]*\]/, '')
        .replace(/\s*;.*$/, '')
        .trim();
}

function linesOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}
