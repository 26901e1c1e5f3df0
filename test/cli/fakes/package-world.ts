/** A project in a folder of its own, with wheels that the test makes; it is built by the real tool without any index. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';

import type { ExecutionContext } from 'ava';
import { list } from 'tar';

import type { PythonEnvironment } from '../../../compiler/build/python-environment.ts';
import { folderOf } from '../../support/folder.ts';
import { run, shared } from './run.ts';

const root = join(import.meta.dirname, '../../..');
const bin = join(root, 'cli/main.ts');
/** Where `.ci/prepare` installs uv. */
const ciPrograms = join(root, 'node_modules/.cache/ci-python/bin');

export const withoutPip = spawnSync('python3', ['-m', 'pip', '--version']).status === 0 ? null : 'python3 has no pip';
export const withoutNpm = spawnSync('npm', ['--version']).status === 0 ? null : 'npm is not installed';
export const withoutUv =
  withoutPip ??
  (existsSync(join(ciPrograms, 'uv')) || spawnSync('uv', ['--version']).status === 0 ? null : 'uv is not installed (.ci/prepare)');

export interface Built {
  readonly code: number | string;
  readonly stderr: string;
  readonly digest: string;
  readonly names: readonly string[];
  readonly endpoints: readonly { readonly name: string; readonly packages: readonly string[]; readonly python: string }[];
}

export interface World {
  readonly folder: string;
  readonly cacheDir: string;
  build(...args: string[]): Promise<Built>;
  /** What `capstan run` starts workers with. @throws with what was printed. */
  environment(): Promise<PythonEnvironment | null>;
}

/** A PATH with uv, or without it. */
export function pathWith(installer: 'uv' | 'pip'): string {
  const own = (shared.PATH ?? '').split(delimiter);
  return (installer === 'uv' ? [ciPrograms, ...own] : own.filter((each) => !existsSync(join(each, 'uv')))).join(delimiter);
}

/** `index`: with the registries; otherwise only with the wheels of the folder. */
export async function packageWorld(
  t: ExecutionContext,
  files: Readonly<Record<string, string>>,
  { installer = 'pip', index = false }: { readonly installer?: 'uv' | 'pip'; readonly index?: boolean } = {},
): Promise<World> {
  const own = await folderOf(t);
  const folder = join(own, 'app');
  await mkdir(folder);
  await writeFiles(folder, files);
  const cacheDir = join(own, 'cache');
  const env = {
    ...(index ? ofNetwork() : { PIP_NO_INDEX: '1', PIP_FIND_LINKS: join(folder, 'wheels'), UV_CACHE_DIR: join(own, 'uv') }),
    CAPSTAN_CACHE_DIR: cacheDir,
    PATH: pathWith(installer),
  };
  return {
    folder,
    cacheDir,
    async build(...args) {
      const running = run([bin, 'build', '--json', ...args], { cwd: folder, env });
      const code = await running.ended;
      const names: string[] = [];
      if (code === 0) await list({ file: join(folder, '.tool/artifact.tar.gz'), onReadEntry: (entry) => void names.push(entry.path) });
      const told = (code === 0 ? JSON.parse(running.stdout()) : { digest: '', endpoints: [] }) as Pick<Built, 'digest' | 'endpoints'>;
      return { code, stderr: running.stderr(), names, ...told };
    },
    async environment() {
      const running = run([join(import.meta.dirname, 'environment.ts'), cacheDir], { cwd: folder, env });
      if ((await running.ended) !== 0) throw new Error(running.stderr());
      return JSON.parse(running.stdout()) as PythonEnvironment | null;
    },
  };
}

/** How this machine reaches registries. */
function ofNetwork(): Readonly<Record<string, string | undefined>> {
  const names = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'];
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

export async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

export interface Wheel {
  readonly needs?: readonly string[];
  readonly platform?: string;
  readonly version?: string;
  /** `name = module:function` of a program. */
  readonly program?: string;
}

/** Makes `wheels/<name>-<version>-py3-none-<platform>.whl`. */
export function wheel(folder: string, name: string, { needs = [], platform = 'any', version = '1.0', program = '' }: Wheel = {}): void {
  const script = `
import base64, hashlib, os, sys, zipfile
folder, name, version, platform, program, *needs = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
info = "%s-%s.dist-info/" % (name, version)
files = {
    name + "/__init__.py": "value = %r\\nversion = %r\\ndef main():\\n    print(%r)\\n" % (name, version, name + " " + version),
    info + "METADATA": "Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n%s" % (name, version, "".join("Requires-Dist: %s\\n" % each for each in needs)),
    info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-%s\\n" % platform,
}
if platform != "any":
    files[name + "/native.cpython-311-x86_64-linux-gnu.so"] = ""
if program:
    files[info + "entry_points.txt"] = "[console_scripts]\\n%s\\n" % program
def line(path, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\\n" % (path, digest, len(text.encode()))
files[info + "RECORD"] = "".join(line(path, text) for path, text in files.items()) + info + "RECORD,,\\n"
with zipfile.ZipFile("%s/%s-%s-py3-none-%s.whl" % (folder, name, version, platform), "w") as made:
    for path, text in files.items():
        made.writestr(path, text)
`;
  execFileSync('python3', ['-c', script, join(folder, 'wheels'), name, version, platform, program, ...needs]);
}

/** The entries of a top folder of an artifact. */
export const inside = (built: Built, folder: string): string[] => [
  ...new Set(built.names.filter((name) => name.startsWith(`${folder}/`)).map((name) => name.split('/')[1] ?? '')),
];

export const declaring = (dependencies: string): string => `from capstan import Endpoint

@Endpoint(name="one", dependencies=${dependencies})
def one():
    return 1
`;
