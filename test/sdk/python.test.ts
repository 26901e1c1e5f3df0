/** The Python SDK's own suite, which needs nothing but Python 3.8 or newer. */
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

const folder = join(import.meta.dirname, '../../sdk/python');
const found = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 8))']).status === 0;
const check = found ? test : test.skip;
const env = { PATH: process.env['PATH'] ?? '', PYTHONDONTWRITEBYTECODE: '1' };

check(`the Python SDK keeps its promises${found ? '' : ' (skipped: there is no Python 3.8 or newer)'}`, async (t) => {
  const { stderr } = await promisify(execFile)(
    'python3',
    ['-W', 'error::ResourceWarning', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.'],
    {
      cwd: folder,
      env,
    },
  );
  t.regex(stderr, /\nRan [1-9]\d* tests in .*\n\nOK/);
});

check(`every file of it reads as Python 3.8${found ? '' : ' (skipped: there is no Python 3.8 or newer)'}`, async (t) => {
  const script = [
    'import ast, pathlib, sys',
    'for path in sorted(pathlib.Path(".").rglob("*.py")):',
    '    ast.parse(path.read_text(), str(path), feature_version=(3, 8))',
    '    print(path)',
  ].join('\n');
  const { stdout } = await promisify(execFile)('python3', ['-c', script], { cwd: folder, env });
  t.true(stdout.includes('capstan/__init__.py'));
});
