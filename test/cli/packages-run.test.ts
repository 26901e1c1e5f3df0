/** The project's packages under `capstan run`: wheels and tarballs that the test makes, installed without any index. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { create } from 'tar';

import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { pathWith, wheel, withoutNpm, withoutPip, writeFiles } from './fakes/package-world.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const missing = withoutPip ?? withoutNpm;
const check = missing === null ? test : test.skip;

check(
  `workers have the packages of both languages, also those that are named later${missing === null ? '' : ` (${missing})`}`,
  async (t) => {
    const root = await folderOf(t);
    const folder = join(root, 'app');
    const vendor = join(root, 'vendor');
    await writeFiles(root, {
      'package/package.json': JSON.stringify({ name: 'right', version: '1.0.0' }),
      'package/index.js': 'module.exports = "right 1";',
    });
    await mkdir(vendor);
    await create({ cwd: root, file: join(vendor, 'right.tgz'), gzip: true }, ['package']);
    wheel(root, 'left', { program: 'left = left:main' });
    wheel(root, 'later');
    await writeFiles(folder, {
      'api.py': `from capstan import Endpoint

import left

@Endpoint(name="py")
def py():
    import os, shutil
    return [left.value, shutil.which("left") is not None, "CAPSTAN_PRELOAD" in os.environ]

@Endpoint(name="more")
def more():
    import later
    return later.value
`,
      'requirements.txt': 'left\n',
      'web.ts': `import { endpoint } from '@capstan/sdk';
import right from 'right';

export const node = endpoint({ name: 'node' }, () => right);
`,
      'package.json': JSON.stringify({ type: 'module', dependencies: { right: `file:${vendor}/right.tgz` } }),
    });
    const env = {
      TMPDIR: root,
      CAPSTAN_CACHE_DIR: join(root, 'cache'),
      PATH: pathWith('pip'),
      PIP_NO_INDEX: '1',
      PIP_FIND_LINKS: join(root, 'wheels'),
      npm_config_offline: 'true',
    };
    const server = run([bin, 'run', '--port', '0'], { cwd: folder, env });
    t.teardown(() => server.child.kill('SIGKILL'));
    const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
    const call = async (name: string): Promise<Record<string, unknown>> => {
      const headers = { 'content-type': 'application/json' };
      return (await (await fetch(`${base}/v2/${name}/runsync`, { method: 'POST', headers, body: '{"input":{}}' })).json()) as Record<
        string,
        unknown
      >;
    };
    t.like(await call('py'), { status: 'COMPLETED', output: ['left', true, false] });
    t.like(await call('node'), { status: 'COMPLETED', output: 'right 1' });
    t.like(await call('more'), { status: 'FAILED', error: "No module named 'later'" });

    await writeFile(join(folder, 'requirements.txt'), 'left\nlater\nabsent\n');
    await until('the failed installation is said', async () => (await call('py'))['title'] === 'Packages missing');
    t.like(await call('node'), { output: 'right 1' }, 'the other language is served');
    await writeFile(join(folder, 'requirements.txt'), 'left\nlater\n');
    await until('the package is there', async () => (await call('more'))['output'] === 'later');
    t.like(await call('py'), { output: ['left', true, false] });

    server.child.kill('SIGTERM');
    t.is(await server.ended, 0, server.stderr());
    t.deepEqual(processesOf(root), []);
  },
);
