/** Local workers have the Python packages that deployed workers have, not those of the machine; in a virtual environment its own, too. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { run, shared, type Run } from './fakes/run.ts';

const execute = promisify(execFile);
const bin = join(import.meta.dirname, '../../cli/main.ts');

const FACTS = `import json, os, sys, sysconfig
print(json.dumps([os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), "python%d.%d" % sys.version_info[:2]]))`;

interface Machine {
  /** Folder of its Python's programs. */
  readonly bin: string;
  readonly home: string;
}

/** A Python of a prefix of its own with numpy, which requires `needed`, with `stray`, and with `usersite` for its user. */
async function machineIn(folder: string): Promise<Machine> {
  const { stdout } = await execute('python3', ['-I', '-c', FACTS]);
  const [program, library, name] = JSON.parse(stdout) as [string, string, string];
  const own = join(folder, 'usr/lib', name);
  await mkdir(own, { recursive: true });
  await mkdir(join(folder, 'usr/bin'));
  for (const entry of await readdir(library))
    if (!/^(site|dist)-packages$|^__pycache__$/.test(entry)) await symlink(join(library, entry), join(own, entry));
  await copyFile(program, join(folder, 'usr/bin', name));
  await symlink(name, join(folder, 'usr/bin/python3'));
  const sites = 'import json, site; print(json.dumps(site.getsitepackages()))';
  const { stdout: listed } = await execute(join(folder, 'usr/bin/python3'), ['-I', '-c', sites]);
  const [packages = ''] = JSON.parse(listed) as string[];
  await installed(packages, 'numpy', ['needed']);
  await installed(packages, 'needed');
  await installed(packages, 'stray');
  await installed(join(folder, '.local/lib', name, 'site-packages'), 'usersite');
  return { bin: join(folder, 'usr/bin'), home: folder };
}

async function installed(packages: string, name: string, requires: readonly string[] = []): Promise<void> {
  const info = `${name}-1.0.dist-info`;
  const requirements = requires.map((each) => `Requires-Dist: ${each}\n`).join('');
  const files: Readonly<Record<string, string>> = {
    [`${name}/__init__.py`]: `NAME = "${name}"\n`,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n${requirements}`,
    [`${info}/RECORD`]: `${name}/__init__.py,,\n${info}/METADATA,,\n${info}/RECORD,,\n`,
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(packages, path)), { recursive: true });
    await writeFile(join(packages, path), text);
  }
}

const TELLS = `import importlib.util, json, subprocess, sys
NAMES = ["numpy", "needed", "stray", "usersite"]
CODE = "import importlib.util, json; print(json.dumps([n for n in " + repr(NAMES) + " if importlib.util.find_spec(n)]))"
def everywhere():
    own = [name for name in NAMES if importlib.util.find_spec(name)]
    return [own] + [json.loads(subprocess.check_output([program, "-c", CODE])) for program in ("python3", sys.executable)]
`;
const SERVER = `import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
from tells import everywhere
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(everywhere()).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;
const PROJECT = {
  'project/tells.py': TELLS,
  'project/server.py': SERVER,
  'project/main.py': `from capstan import Endpoint
from tells import everywhere
@Endpoint(name="job", workers=(0, 1))
def job(): return everywhere()
@Endpoint(name="lazy", workers=(0, 1))
def lazy():
    import stray
    return stray.NAME
Endpoint(name="server", command=["python3", "server.py"], load_balanced=True, workers=(0, 1))
`,
  'project/early.py': `from capstan import Endpoint
import stray
@Endpoint(name="early", workers=(0, 1))
def early(): return stray.NAME
`,
};

interface Served {
  readonly server: Run;
  readonly call: (path: string, isJob?: boolean) => Promise<unknown>;
}

async function served(t: ExecutionContext, root: string, env: Readonly<Record<string, string>>): Promise<Served> {
  const variables = { ...env, TMPDIR: root, CAPSTAN_CACHE_DIR: join(root, 'cache') };
  const server = run([bin, 'run', '--port', '0'], { cwd: join(root, 'project'), env: variables });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
  const call = async (path: string, isJob = false): Promise<unknown> => {
    const init = isJob ? { method: 'POST', body: '{"input":{}}', headers: { 'content-type': 'application/json' } } : {};
    return (await fetch(`${base}${path}`, init)).json();
  };
  return { server, call };
}

test('local workers have the base packages of the machine, and no other; a missing import says what to do', async (t) => {
  t.timeout(120_000);
  const root = await realpath(await folderOf(t, PROJECT));
  const machine = await machineIn(root);
  const { server, call } = await served(t, root, { PATH: `${machine.bin}:${shared.PATH ?? ''}`, HOME: machine.home });
  await server.hear(
    /! imported, but in no package of the build: stray \(early\.py:2\)\. Name the packages in requirements\.txt, pyproject/,
  );
  const found = ['numpy', 'needed'];
  t.like(await call('/v2/job/runsync', true), { status: 'COMPLETED', output: [found, found, found] }, server.stderr());
  t.deepEqual(await call('/lb/server/'), [found, found, found]);
  t.like(await call('/v2/lazy/runsync', true), { status: 'FAILED', error: "No module named 'stray'" });
  await server.hear(
    /! lazy: job \S+ FAILED: No module named 'stray'\nhint: stray is in no package of the project: name .* in requirements\.txt/,
  );
  await server.hear(/early failed to load: No module named 'stray'\n(?:.*\n)*?hint: stray is in no package of the project/);
  server.child.kill('SIGTERM');
  t.is(await server.ended, 0, server.stderr());
});

test('in an activated virtual environment local workers have its packages; a warning names those that deployed workers lack', async (t) => {
  t.timeout(120_000);
  const root = await realpath(await folderOf(t, PROJECT));
  const machine = await machineIn(root);
  const environment = join(root, 'venv');
  await execute(join(machine.bin, 'python3'), ['-m', 'venv', '--without-pip', environment]);
  const purelib = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  const { stdout } = await execute(join(environment, 'bin/python3'), ['-I', '-c', purelib]);
  await installed(stdout.trim(), 'stray');
  const path = `${join(environment, 'bin')}:${machine.bin}:${shared.PATH ?? ''}`;
  const { server, call } = await served(t, root, { PATH: path, HOME: machine.home, VIRTUAL_ENV: environment });
  await server.hear(/! imported, but in no package of the build: stray \(early\.py:2\)/);
  t.like(await call('/v2/job/runsync', true), { status: 'COMPLETED', output: [['stray'], ['stray'], ['stray']] }, server.stderr());
  t.deepEqual(await call('/lb/server/'), [['stray'], ['stray'], ['stray']]);
  t.like(await call('/v2/early/runsync', true), { status: 'COMPLETED', output: 'stray' });
});
