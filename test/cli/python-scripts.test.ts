/** Programs of bundled Python packages run wherever the build is unpacked. */
import { execFileSync } from 'node:child_process';
import { chmod, link, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { relocateScripts, removeTraces } from '../../compiler/build/python-scripts.ts';
import { folderOf } from '../support/folder.ts';

const BODY = '# -*- coding: utf-8 -*-\nfrom __future__ import annotations\nimport sys\nfrom tool import main\nsys.exit(main())\n';
const firstLines: Readonly<Record<string, string>> = {
  plain: '#!/nowhere/python3.11\n',
  isolated: '#!/nowhere/python3 -I\n',
  placeholder: '#!python\n',
  long: `#!/bin/sh\n'''exec' "/nowhere/with space/python3" "$0" "$@"\n' '''\n`,
};

test('a script finds Python on PATH and its packages beside it, and so do the programs that it starts', async (t) => {
  const root = await folderOf(t);
  const made = join(root, 'made');
  await mkdir(join(made, 'bin'), { recursive: true });
  await writeFile(
    join(made, 'tool.py'),
    'import subprocess, sys\ndef main():\n    print(subprocess.check_output([sys.executable, "-c", "import tool; print(tool.__name__)"], text=True).strip(), *sys.argv[1:])\n',
  );
  for (const [name, first] of Object.entries(firstLines)) {
    await writeFile(join(made, 'bin', name), first + BODY);
    await chmod(join(made, 'bin', name), 0o755);
  }
  await relocateScripts(made);
  const moved = join(root, 'a place with spaces', 'python_packages');
  await mkdir(join(root, 'a place with spaces'));
  await rename(made, moved);
  for (const name of Object.keys(firstLines))
    t.is(execFileSync(join(moved, 'bin', name), ['one', 'two three'], { encoding: 'utf8', cwd: '/' }), 'tool one two three\n', name);
});

test('other programs and the files that an installer linked from its cache remain as they are', async (t) => {
  const root = await folderOf(t);
  await mkdir(join(root, 'packages/bin'), { recursive: true });
  await writeFile(join(root, 'packages/bin/shell'), '#!/bin/sh\necho python\n');
  await writeFile(join(root, 'packages/bin/native'), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0xff, 0x0a]));
  await writeFile(join(root, 'cached'), firstLines['plain'] + BODY);
  await link(join(root, 'cached'), join(root, 'packages/bin/linked'));
  await relocateScripts(join(root, 'packages'));
  t.is(await readFile(join(root, 'packages/bin/shell'), 'utf8'), '#!/bin/sh\necho python\n');
  t.deepEqual(await readFile(join(root, 'packages/bin/native')), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0xff, 0x0a]));
  t.is(await readFile(join(root, 'cached'), 'utf8'), firstLines['plain'] + BODY);
  t.is((await stat(join(root, 'packages/bin/linked'))).mode & 0o777, 0o755);
  await relocateScripts(join(root, 'cached-nowhere'));
});

test('nothing in installed packages records the machine that installed them', async (t) => {
  const root = await folderOf(t);
  const info = join(root, 'tool-1.0.dist-info');
  await mkdir(info);
  await writeFile(join(root, '.lock'), '');
  for (const name of ['direct_url.json', 'REQUESTED', 'INSTALLER', 'uv_cache.json']) await writeFile(join(info, name), 'x');
  await writeFile(
    join(root, 'cached'),
    'tool.py,sha256=a,1\nbin/tool,sha256=b,2\n../../bin/other,sha256=c,3\ntool-1.0.dist-info/INSTALLER,sha256=d,4\n',
  );
  await link(join(root, 'cached'), join(info, 'RECORD'));
  await removeTraces(root);
  t.is(await readFile(join(info, 'RECORD'), 'utf8'), 'tool.py,sha256=a,1\n');
  t.regex(await readFile(join(root, 'cached'), 'utf8'), /bin\/tool/);
  for (const name of ['direct_url.json', 'REQUESTED', 'INSTALLER', 'uv_cache.json'])
    await t.throwsAsync(stat(join(info, name)), { code: 'ENOENT' });
  await t.throwsAsync(stat(join(root, '.lock')), { code: 'ENOENT' });
});
