/**
 * Installs Python packages for Linux x86_64 on any machine. pip resolves all packages first; those that the hosts lack
 * are then installed from wheels, without packages that only the others need.
 */
import { glob, mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../terminal/tool-error.ts';
import { PYTHON_PACKAGES } from './generated.ts';
import { layerOf, type KeptLayer } from './layers.ts';
import { relocateScripts, removeTraces } from './python-scripts.ts';
import { digestOf, faultOf, runInstaller, type Ended } from './run-installer.ts';

/** From the newest C library that hosts can be expected to have (Debian 11, Ubuntu 20.04) to the oldest. */
const platforms = [
  'manylinux_2_28_x86_64',
  'manylinux_2_17_x86_64',
  'manylinux2014_x86_64',
  'manylinux2010_x86_64',
  'manylinux1_x86_64',
  'linux_x86_64',
];

const notesSchema = z.object({
  /** `requirements.txt`: the installed packages, pinned. */
  pinned: z.array(z.string()),
  /** Resolved packages → the packages they need, by normalised names. */
  needs: z.record(z.string(), z.array(z.string())),
  /** True when compiled modules require this Python version: their file names contain it (PEP 3149). */
  isCompiled: z.boolean(),
});
type Notes = z.output<typeof notesSchema>;

const reportSchema = z.object({
  install: z.array(
    z.object({
      is_direct: z.boolean().optional(),
      requested: z.boolean().optional(),
      download_info: z.object({ url: z.string() }),
      metadata: z.object({ name: z.string(), version: z.string(), requires_dist: z.array(z.string()).optional() }),
    }),
  ),
});
type Resolved = z.output<typeof reportSchema>['install'];

export interface PythonOrder {
  readonly folder: string;
  /** As written, in order. */
  readonly requirements: readonly string[];
  /** Normalised names. */
  readonly leaveOut: ReadonlySet<string>;
  /** `3.11`. */
  readonly version: string;
  /** Version of the local Python: only if the two are equal can this machine build a package without a wheel. */
  readonly ownVersion: string | null;
  readonly cacheDir: string;
  readonly refresh: boolean;
}

/** @throws CapstanError INVALID_MANIFEST with pip's message, CONFIG without pip. */
export async function installPython(order: PythonOrder): Promise<KeptLayer<Notes>> {
  const { folder, requirements, leaveOut, version } = order;
  const locals = await Promise.all(requirements.map((each) => digestOf(resolve(folder, each))));
  return layerOf({
    cacheDir: order.cacheDir,
    refresh: order.refresh,
    key: { kind: 'python', notes: 3, requirements, locals, leaveOut: [...leaveOut].sort(), version, platforms },
    notes: notesSchema,
    install: (target) => install(order, join(target, PYTHON_PACKAGES)),
  });
}

async function install(order: PythonOrder, target: string): Promise<Notes> {
  const { folder, requirements, leaveOut, version, ownVersion } = order;
  await mkdir(target, { recursive: true });
  const here = process.platform === 'linux' && process.arch === 'x64' && version === ownVersion;
  const wheels = [
    '--only-binary=:all:',
    '--implementation',
    'cp',
    '--python-version',
    version,
    ...platforms.flatMap((each) => ['--platform', each]),
  ];
  const pip = (platform: readonly string[], args: readonly string[]): Promise<Ended> =>
    runInstaller(
      'python3',
      ['-m', 'pip', '--disable-pip-version-check', '--no-input', 'install', '--target', target, ...platform, ...args],
      folder,
    );
  const resolving = (platform: readonly string[]): Promise<Ended> =>
    pip(platform, ['--dry-run', '--quiet', '--report', '-', ...requirements]);

  let platform: readonly string[] = wheels;
  let answer = await resolving(platform);
  // Packages without a wheel can be built when host and target are the same.
  if (!answer.ok && here) {
    platform = [];
    answer = await resolving(platform);
  }
  if (!answer.ok) throw failed(answer, version);
  const resolved = reportSchema.parse(JSON.parse(answer.stdout.slice(answer.stdout.indexOf('{')))).install;
  const needs = needsOf(resolved);
  const kept = reachable(rootsOf(resolved), needs, leaveOut);
  const chosen = resolved.filter(({ metadata }) => kept.has(normalised(metadata.name)));
  if (chosen.length > 0) {
    const exact = chosen.map(({ is_direct: direct, download_info: { url }, metadata: { name, version: at } }) =>
      direct === true ? `${name} @ ${url}` : `${name}==${at}`,
    );
    const installed = await pip(platform, ['--no-deps', '--no-compile', '--quiet', ...exact]);
    if (!installed.ok) throw failed(installed, version);
  }
  await relocateScripts(target);
  await removeTraces(target);
  return {
    pinned: chosen.map(({ metadata: { name, version: at } }) => `${name}==${at}`).sort(),
    needs: Object.fromEntries([...needs].map(([name, others]) => [name, [...others]])),
    isCompiled: await isCompiled(target),
  };
}

async function isCompiled(target: string): Promise<boolean> {
  for await (const _module of glob('**/*.cpython-*.so', { cwd: target })) return true;
  return false;
}

function failed(ended: Ended, version: string): ToolError {
  const fault = faultOf(ended);
  if (/No module named pip/.test(ended.stderr))
    return new ToolError(
      'CONFIG',
      'pip is required to install Python packages, and python3 does not have it',
      'Install pip: python3 -m ensurepip',
    );
  const hint = /no matching distribution|could not find a version/i.test(fault)
    ? `Packages must have a wheel for Linux x86_64 and Python ${version} (--python <version>), unless this machine is such a one.`
    : 'Correct the dependencies; pip’s own settings (index, proxy) apply.';
  return new ToolError('INVALID_MANIFEST', `installing Python packages failed:\n  ${fault}`, hint);
}

/** Packages of an extra count only if something requested them: if they were resolved and nothing else needs them. */
function needsOf(resolved: Resolved): Map<string, Set<string>> {
  const names = new Set(resolved.map(({ metadata }) => normalised(metadata.name)));
  const plain = new Map<string, Set<string>>();
  const extra = new Map<string, Set<string>>();
  for (const { metadata } of resolved) {
    const name = normalised(metadata.name);
    plain.set(name, new Set());
    extra.set(name, new Set());
    for (const line of metadata.requires_dist ?? []) {
      const other = requirementName(line);
      if (names.has(other)) (/;.*\bextra\b/.test(line) ? extra : plain).get(name)?.add(other);
    }
  }
  if (reachable(rootsOf(resolved), plain, new Set()).size === names.size) return plain;
  for (const [name, others] of extra) for (const other of others) plain.get(name)?.add(other);
  return plain;
}

function rootsOf(resolved: Resolved): string[] {
  return resolved.filter(({ requested }) => requested === true).map(({ metadata }) => normalised(metadata.name));
}

/** Returns the packages that the roots need, directly or not, without those left out and what only those need. */
export function reachable(
  roots: readonly string[],
  needs: ReadonlyMap<string, ReadonlySet<string>>,
  leaveOut: ReadonlySet<string>,
): Set<string> {
  const found = new Set<string>();
  const waiting = [...roots];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name) || leaveOut.has(name)) continue;
    found.add(name);
    waiting.push(...(needs.get(name) ?? []));
  }
  return found;
}

/** PEP 503. */
export function normalised(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-');
}

/** Returns the package name of a requirement; the text itself for a path or a URL. */
export function requirementName(line: string): string {
  const wheel = /(?:^|\/)([^/]+?)-\d[^/]*\.whl$/.exec(line);
  if (wheel?.[1] !== undefined) return normalised(wheel[1]);
  return normalised(/^\s*([A-Za-z0-9][\w.-]*)/.exec(line)?.[1] ?? line);
}

/** Reads the requirements of a `requirements.txt`; pip itself rejects options of pip in it. */
export async function readRequirements(folder: string): Promise<string[]> {
  let text: string;
  try {
    text = await readFile(join(folder, 'requirements.txt'), 'utf8');
  } catch {
    return []; // the file is optional
  }
  return text
    .split('\n')
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .filter((line) => line !== '');
}
