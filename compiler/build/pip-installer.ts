/** Resolves and installs Python packages with pip, where uv is not available. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { ToolError } from '../../terminal/tool-error.ts';
import type { InstallSpec, PythonInstaller, PythonWanted, Resolution } from './python-installer.ts';
import { normalised, reachable, requirementName } from './python-names.ts';
import { faultOf, runInstaller, type Ended } from '../programs/run-installer.ts';

/** From the newest C library that hosts can be expected to have (Debian 11, Ubuntu 20.04) to the oldest. */
const PLATFORMS = [
  'manylinux_2_28_x86_64',
  'manylinux_2_17_x86_64',
  'manylinux2014_x86_64',
  'manylinux2010_x86_64',
  'manylinux1_x86_64',
  'linux_x86_64',
];

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

export const pipInstaller: PythonInstaller = { name: 'pip', resolve, install };

async function resolve(wanted: PythonWanted): Promise<Resolution> {
  const constraints = join(wanted.scratch, 'constraints.txt');
  await writeFile(constraints, wanted.constraints.map((line) => `${line}\n`).join(''));
  const direct = wanted.requirements.filter((each) => each.includes('://'));
  const file = join(wanted.scratch, 'direct.txt');
  await writeFile(file, direct.map((line) => `${line}\n`).join(''));
  const report = (platform: readonly string[]): Promise<Ended> =>
    runPip(wanted, [
      ...['--dry-run', '--quiet', '--report', '-', '--ignore-installed', '--constraint', constraints],
      ...[...platform, '--target', wanted.scratch],
      ...wanted.requirements.filter((each) => !each.includes('://')),
      ...(direct.length === 0 ? [] : ['--requirement', file]),
    ]);
  let platform = wheelsFor(wanted);
  let answer = await report(platform);
  const isBuilt = !answer.ok && wanted.mayBuild && platform.length > 0;
  if (isBuilt) {
    platform = [];
    answer = await report(platform);
  }
  if (!answer.ok) throw failed(answer, wanted);
  const resolved = reportSchema.parse(JSON.parse(answer.stdout.slice(answer.stdout.indexOf('{')))).install;
  return {
    packages: resolved.map(({ is_direct: direct = false, download_info: { url }, metadata: { name, version } }) => ({
      name: normalised(name),
      requirement: direct ? `${name} @ ${url}` : `${name}==${version}`,
      bytes: null,
      isDirect: direct,
    })),
    needs: needsOf(resolved),
    roots: rootsOf(resolved),
    isBuilt,
  };
}

async function install(wanted: PythonWanted, { packages, isBuilt, hashes, target, downloading }: InstallSpec): Promise<void> {
  // pip requires hashes of all packages as soon as one has them.
  const checked = packages.every(({ requirement }) => hashes.has(requirement));
  const exact = join(wanted.scratch, 'exact.txt');
  const lines = packages.map(({ requirement }) =>
    [requirement, ...(checked ? (hashes.get(requirement) ?? []) : []).map((hash) => `--hash=${hash}`)].join(' '),
  );
  await writeFile(exact, lines.map((line) => `${line}\n`).join(''));
  const platform = isBuilt ? [] : wheelsFor(wanted);
  let former: string | undefined;
  const ended = await runPip(
    wanted,
    ['--no-deps', '--no-compile', '--ignore-installed', '--progress-bar', 'off', '--target', target, ...platform, '--requirement', exact],
    (line) => {
      const name = /^Collecting ([\w.-]+)/.exec(line)?.[1];
      if (name === undefined && !line.startsWith('Installing')) return;
      if (former !== undefined) downloading(former, true);
      former = name === undefined ? undefined : normalised(name);
      if (former !== undefined) downloading(former, false);
    },
  );
  if (!ended.ok) throw failed(ended, wanted);
}

async function runPip(
  { folder, indexes, scratch }: PythonWanted,
  args: readonly string[],
  onLine?: (line: string) => void,
): Promise<Ended> {
  // Addresses may contain credentials, which arguments would show to every user of this machine.
  const lines = [
    ...(indexes.index === undefined ? [] : [`--index-url ${indexes.index}`]),
    ...indexes.extraIndexes.map((each) => `--extra-index-url ${each}`),
    ...indexes.findLinks.map((each) => `--find-links ${each}`),
  ];
  const file = join(scratch, 'indexes.txt');
  await writeFile(file, lines.map((line) => `${line}\n`).join(''));
  const from = [
    ...(lines.length === 0 ? [] : ['--requirement', file]),
    ...(indexes.noIndex ? ['--no-index'] : []),
    ...(indexes.pre ? ['--pre'] : []),
  ];
  return runInstaller('python3', ['-m', 'pip', '--disable-pip-version-check', '--no-input', 'install', ...from, ...args], {
    cwd: folder,
    ...(onLine === undefined ? {} : { onLine }),
  });
}

function wheelsFor({ isForHere, version }: PythonWanted): readonly string[] {
  if (isForHere) return [];
  return [
    '--only-binary=:all:',
    '--implementation',
    'cp',
    '--python-version',
    version,
    ...PLATFORMS.flatMap((each) => ['--platform', each]),
  ];
}

function failed(ended: Ended, { version }: PythonWanted): ToolError {
  const fault = faultOf(ended);
  if (/No module named pip/.test(ended.stderr))
    return new ToolError(
      'CONFIG',
      'uv or pip is required to install Python packages; uv is not on PATH, and python3 has no pip',
      'Install pip: python3 -m ensurepip',
    );
  const hint = /no matching distribution|could not find a version/i.test(fault)
    ? `Packages must have a wheel for Linux x86_64 and Python ${version} (--python <version>), unless the build runs on such a machine.`
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
