/**
 * What somebody installed on a host is no package of a worker: neither in its user's folder nor in that of its Python. Packages of
 * the base image are, with what they require; at every level of isolation, for functions, servers, commands and what these start.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { AS_NOBODY, readHostPython } from '../../agent/inventory/host-python.ts';
import { openPythonEnvironments, type WorkerEnvironments } from '../../agent/inventory/python-environment.ts';
import { ownFolder } from '../support/own-folder.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';
const isThere = canFindProcesses && (await run(PYTHON, ['-c', 'import venv']).catch(() => undefined)) !== undefined;
const linux = isThere ? test.serial : test.serial.skip;
const isRoot = process.getuid?.() === 0;
const asRoot = isRoot ? linux : test.serial.skip;
if (!isRoot) console.log('skipped: what other users can run is read by root only');
if (!isThere) console.log(`skipped: ${PYTHON} with its module venv is not here`);

const MODULES = ['numpy', 'needed', 'stray', 'usersite'];
/** In a Python that has torch, which requires `stray`, and no numpy. */
const FOUND_LATER = { numpy: false, needed: false, stray: true, usersite: false };
const FOUND = { numpy: true, needed: true, stray: false, usersite: false };
const TELLS = `import importlib.util, json, subprocess, sys
NAMES = ${JSON.stringify(MODULES)}
def found():
    return {name: importlib.util.find_spec(name) is not None for name in NAMES}
def everywhere():
    code = "import importlib.util, json; print(json.dumps({n: importlib.util.find_spec(n) is not None for n in " + repr(NAMES) + "}))"
    started = [json.loads(subprocess.check_output([program, "-c", code])) for program in ("python3", sys.executable)]
    return [found()] + started
`;

interface FakeHost {
  /** The environment of its agent. */
  readonly env: Readonly<Record<string, string>>;
  readonly packages: string;
  readonly folder: string;
}

/** A Python with numpy, which requires \`needed\`, with a package that nobody requires, and with one of its user. */
async function fakeHost(t: ExecutionContext, base = PYTHON): Promise<FakeHost> {
  const folder = await ownFolder('capstan-host');
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  // Workers of other users pass it.
  await chmod(folder, 0o755);
  await run(base, ['-m', 'venv', '--without-pip', join(folder, 'python')]);
  const { stdout } = await run(join(folder, 'python/bin/python3'), ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))']);
  const packages = stdout.trim();
  const version = /python3\.\d+/.exec(packages)?.[0] ?? '';
  await installed(packages, 'numpy', ['needed>=1 ; python_version > "3"', 'stray ; extra == "test"']);
  await installed(packages, 'needed');
  await installed(packages, 'stray');
  await installed(join(folder, 'home/.local/lib', version, 'site-packages'), 'usersite');
  return {
    env: { PATH: `${join(folder, 'later/bin')}:${join(folder, 'python/bin')}:/usr/bin:/bin`, HOME: join(folder, 'home') },
    packages,
    folder,
  };
}

/** Puts another Python first on PATH of a host, and returns its folder. */
async function installLater({ folder, packages }: FakeHost): Promise<string> {
  const python = join(folder, 'later-python');
  await run(PYTHON, ['-m', 'venv', '--without-pip', python]);
  const own = packages.replace(join(folder, 'python'), python);
  await installed(own, 'torch', ['stray']);
  await installed(own, 'stray');
  await rename(python, join(folder, 'later'));
  return join(folder, 'later');
}

async function projectWithTorch({ folder }: FakeHost): Promise<string> {
  const source = join(folder, 'with-torch');
  await mkdir(source);
  await writeFile(join(source, 'tells.py'), TELLS);
  await writeFile(
    join(source, 'main.py'),
    `import torch
from capstan import Endpoint
from tells import everywhere
@Endpoint(name="torch", workers=(0, 1))
def torch_job(): return everywhere()
`,
  );
  return source;
}

async function installed(packages: string, name: string, requires: readonly string[] = []): Promise<void> {
  const info = `${name}-1.0.dist-info`;
  const files: Readonly<Record<string, string>> = {
    [`${name}/__init__.py`]: `NAME = "${name}"\n`,
    [`${info}/METADATA`]: [
      'Metadata-Version: 2.1',
      `Name: ${name}`,
      'Version: 1.0',
      ...requires.map((each) => `Requires-Dist: ${each}`),
      '',
    ].join('\n'),
    [`${info}/RECORD`]: `${name}/__init__.py,,\n${info}/METADATA,,\n${info}/RECORD,,\n../../../bin/${name},,\n`,
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(packages, path)), { recursive: true });
    await writeFile(join(packages, path), text);
  }
}

for (const level of ['none', 'user', 'sandbox'])
  linux(`level ${level}: workers have the base packages of their host, and no other`, async (t) => {
    t.timeout(180_000);
    const host = await fakeHost(t);
    const project = {
      'tells.py': TELLS,
      'main.py': `from capstan import Endpoint
from tells import everywhere
@Endpoint(name="job", workers=(0, 1))
def job(): return everywhere()
@Endpoint(name="again", workers=(0, 1))
def again(): return everywhere()
api = Endpoint(name="routes", workers=(0, 1))
@api.get("/")
def root(): return everywhere()
Endpoint(name="server", command=["python3", "server.py"], load_balanced=True, workers=(0, 1))
`,
      'server.py': `import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
from tells import everywhere
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(everywhere() if self.path == "/" else {}).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`,
    };
    // Where the level is not available, its absence is what other tests name.
    const stack = await Stack.start({
      ...host.env,
      CAPSTAN_ISOLATION: level,
      CAPSTAN_WORKER_DIR: join(host.folder, 'workers'),
      // A spare is of the Python that was there before.
      CAPSTAN_SPARE_HOSTS: '1',
      CAPSTAN_INVENTORY_MS: '100',
    }).catch((error: unknown) => error as Error);
    if (stack instanceof Error) {
      t.regex(String(stack.cause), /the level .* does not work on this host/);
      t.log(`skipped: ${stack.message}`);
      return;
    }
    try {
      const source = join(host.folder, 'project');
      await mkdir(source);
      for (const [name, text] of Object.entries(project)) await writeFile(join(source, name), text);
      const ids = await stack.deploy(source);
      const outputOf = async (id = ''): Promise<unknown> => {
        const job = await stack.call(`/v2/${id}/runsync?wait=120000`, { method: 'POST', body: '{"input":{}}' });
        const { output, error } = (await job.json()) as { output?: unknown; error?: string };
        return output ?? error;
      };
      t.deepEqual(await outputOf(ids.get('job')), [FOUND, FOUND, FOUND]);
      for (const name of ['routes', 'server']) {
        const response = await stack.call(`/lb/${ids.get(name) ?? ''}/`);
        t.deepEqual(await response.json(), [FOUND, FOUND, FOUND], name);
      }
      const waiting = await stack.deploy(await projectWithTorch(host), '--allow-missing');
      const waits = outputOf(waiting.get('torch'));
      const later = await installLater(host);
      t.deepEqual(await waits, [FOUND_LATER, FOUND_LATER, FOUND_LATER], 'a Python that is installed later');
      await rm(later, { recursive: true });
      await until('the Python that was removed is no longer reported', async () =>
        (await stack.tool('node', 'list', '--json')).includes('"numpy"'),
      );
      t.deepEqual(await outputOf(ids.get('again')), [FOUND, FOUND, FOUND], 'without it');
    } finally {
      await stack.close();
    }
  });

const silent = { warn: (): void => undefined };

linux('what is installed on the host later is found once it is a base package, and what goes is gone', async (t) => {
  const { env, packages, folder } = await fakeHost(t);
  const environments = await openPythonEnvironments({ env, folders: ['/proc/nowhere', join(folder, 'own')], log: silent });
  const read = async ({ own }: WorkerEnvironments): Promise<readonly string[]> => Object.keys((await readHostPython(own)).packages).sort();
  t.deepEqual(await read(environments), ['numpy']);
  await installed(packages, 'torch', ['stray']);
  await environments.refresh();
  t.deepEqual(await read(environments), ['numpy', 'torch']);
  const imports = async (code: string): Promise<string> => (await run('python3', ['-c', code], { env: environments.own })).stdout.trim();
  t.is(await imports('import stray; print(stray.NAME)'), 'stray', 'torch requires it');
  await rm(join(packages, 'torch'), { recursive: true });
  await rm(join(packages, 'torch-1.0.dist-info'), { recursive: true });
  await environments.refresh();
  t.deepEqual(await read(environments), ['numpy']);
  await t.throwsAsync(imports('import stray'), { message: /No module named 'stray'/ });
});

linux('a Python that appears is taken, one that fails stays as it was, and one that goes is gone', async (t) => {
  const host = await fakeHost(t);
  const { folder } = host;
  const env = { ...host.env, PATH: `relative:${join(folder, 'later/bin')}:${join(folder, 'gone')}` };
  const environments = await openPythonEnvironments({ env, folders: [join(folder, 'own')], log: silent });
  const packages = async (): Promise<string> => {
    await environments.refresh();
    t.false(await environments.hasChanged());
    const { version, packages: found } = await readHostPython(environments.own);
    return version === '' ? 'no Python' : Object.keys(found).join();
  };
  t.is(await packages(), 'no Python');
  const later = await installLater(host);
  t.true(await environments.hasChanged());
  t.is(await packages(), 'torch');
  const program = join(later, 'bin/python3');
  const former = environments.own['PATH'];
  await rename(program, `${program}.real`);
  await writeFile(program, '#!/bin/sh\necho half installed >&2\nexit 3\n', { mode: 0o755 });
  t.true(await environments.hasChanged());
  await environments.refresh();
  t.true(await environments.hasChanged(), 'it may be being installed, and is tried again soon');
  t.is(environments.own['PATH'], former);
  await rename(`${program}.real`, program);
  t.is(await packages(), 'torch');
  await rm(later, { recursive: true });
  t.true(await environments.hasChanged());
  t.is(await packages(), 'no Python');
});

asRoot('a Python that only the user of the agent can run is none for workers of other users', async (t) => {
  const host = await fakeHost(t);
  const environments = await openPythonEnvironments({ env: host.env, folders: [join(host.folder, 'own')], log: silent });
  await installLater(host);
  await chmod(join(host.folder, 'later'), 0o700);
  await environments.refresh();
  const packages = async (variables: Readonly<Record<string, string>>): Promise<string[]> =>
    Object.keys((await readHostPython(variables)).packages);
  t.deepEqual(await packages(environments.own), ['torch']);
  t.deepEqual(await packages(environments.everyone), ['numpy']);
  // What nobody else can enter is not reported for them.
  const env = { PATH: join(host.folder, 'later/bin') };
  t.not((await readHostPython(env)).version, '');
  t.is((await readHostPython(env, AS_NOBODY)).version, '');
});

linux('agents that start together share the environment, and none lacks it', async (t) => {
  const { env, packages, folder } = await fakeHost(t);
  const required = Array.from({ length: 40 }, (_, index) => `part${index}`);
  for (const name of required) await installed(packages, name);
  await installed(packages, 'torch', required);
  const warnings: unknown[] = [];
  const log = { warn: (...line: unknown[]): unknown => warnings.push(line) };
  const start = async (): Promise<WorkerEnvironments> => openPythonEnvironments({ env, folders: [join(folder, 'own')], log });
  const all = await Promise.all([start(), start(), start(), start()]);
  t.deepEqual(warnings, []);
  t.is(new Set(all.map(({ own }) => own['PATH'])).size, 1);
});

linux('a module that is one file is not compiled anew by each worker', async (t) => {
  const { env, packages, folder } = await fakeHost(t);
  await installed(packages, 'torch', ['single']);
  await mkdir(join(packages, 'single-1.0.dist-info'));
  await writeFile(join(packages, 'single-1.0.dist-info/METADATA'), 'Metadata-Version: 2.1\nName: single\nVersion: 1.0\n');
  await writeFile(join(packages, 'single-1.0.dist-info/RECORD'), 'single.py,,\nsingle-1.0.dist-info/METADATA,,\n');
  await writeFile(join(packages, 'single.py'), 'NAME = "single"\n');
  await run('python3', ['-m', 'py_compile', join(packages, 'single.py')], { env });
  const { own } = await openPythonEnvironments({ env, folders: [join(folder, 'own')], log: silent });
  const { stderr } = await run('python3', ['-B', '-v', '-c', 'import single'], { env: own });
  t.regex(stderr, /code object from '[^']*single[^']*\.pyc'/);
});

linux('variables of the host lead no worker to its packages', async (t) => {
  const { env, packages, folder } = await fakeHost(t, PYTHON);
  const user = { ...env, PATH: '/usr/bin:/bin', PYTHONPATH: packages, PYTHONUSERBASE: join(folder, 'home/.local') };
  const { own } = await openPythonEnvironments({ env: user, folders: [join(folder, 'own')], log: silent });
  t.is(own['PYTHONNOUSERSITE'], '1');
  const { PYTHONPATH: _, ...workers } = own;
  await t.throwsAsync(run('python3', ['-c', 'import usersite'], { env: workers }), { message: /No module named 'usersite'/ });
  await t.throwsAsync(run('/usr/bin/python3', ['-c', 'import usersite'], { env: workers }), { message: /No module named 'usersite'/ });
});

linux('a Python that fails is named and taken for no missing one; a launcher without one is', async (t) => {
  const folder = await ownFolder('capstan-host');
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const write = async (text: string): Promise<void> => writeFile(join(folder, 'python3'), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  const env = { PATH: folder };
  const warnings: unknown[] = [];
  const log = { warn: (...line: unknown[]): unknown => warnings.push(line) };
  await write('echo broken >&2; exit 3');
  await openPythonEnvironments({ env, folders: [join(folder, 'own')], log });
  t.regex(JSON.stringify(warnings), /broken/);
  await t.throwsAsync(readHostPython(env), { message: /broken/ });
  await write('exit 127');
  warnings.length = 0;
  t.deepEqual((await openPythonEnvironments({ env, folders: [join(folder, 'own')], log })).own, { ...env, PYTHONNOUSERSITE: '1' });
  t.deepEqual([await readHostPython(env), warnings], [{ version: '', packages: {} }, []]);
});

linux('environments of former Pythons are removed but the last four; one that was used within a day stays', async (t) => {
  const { env, folder } = await fakeHost(t);
  const own = join(folder, 'own');
  const open = async (): Promise<WorkerEnvironments> => openPythonEnvironments({ env, folders: [own], log: silent });
  const { folders } = await open();
  const day = 86_400;
  const now = Math.round(Date.now() / 1_000);
  for (let age = 0; age < 10; age += 1) {
    const path = join(own, age === 9 ? `removed-${'9'.repeat(16)}` : String(age).repeat(16));
    await mkdir(path);
    // The last ones are what a killed process left: without the file.
    if (age < 8) await writeFile(join(path, 'pyvenv.cfg'), '');
    await utimes(age < 8 ? join(path, 'pyvenv.cfg') : path, now - age * day - 60, now - age * day - 60);
  }
  // Of somebody else.
  const others = ['backup', 'removed-packages', `${'8'.repeat(16)}.old`, '8'.repeat(17), 'A'.repeat(16)];
  for (const name of others) {
    await mkdir(join(own, name));
    await writeFile(join(own, name, 'pyvenv.cfg'), '');
    await utimes(join(own, name, 'pyvenv.cfg'), 1, 1);
  }
  await open();
  const kept = (await readdir(own)).filter((name) => name !== basename(folders[0] ?? '')).sort();
  t.deepEqual(kept, [...[0, 1, 2, 3, 4].map((age) => String(age).repeat(16)), ...others].sort());
  // The own one is never removed, however old.
  const [used = ''] = folders;
  await utimes(join(used, 'pyvenv.cfg'), 1, 1);
  await open();
  t.true((await readdir(own)).includes(basename(used)));
});
