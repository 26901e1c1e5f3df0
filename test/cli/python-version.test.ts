/** Which Python a build is for, and what a project allows. */
import test from 'ava';

import { mustAllow, namedPython } from '../../cli/build/python-version.ts';
import { folderOf } from '../support/folder.ts';

test('.python-version names the version', async (t) => {
  const named = async (text: string): Promise<string | undefined> => namedPython(await folderOf(t, { '.python-version': text }));
  for (const text of ['3.12', '3.12.4\n', '# of this project\n3.12\n3.11\n', 'cpython-3.12.1', 'python3.12'])
    t.is(await named(text), '3.12', text);
  for (const text of ['', 'system\n', 'pypy@3.10', '3.x']) t.is(await named(text), undefined, text);
  t.is(await namedPython(await folderOf(t)), undefined);
});

test('requires-python decides, and the refusal names both', async (t) => {
  const folder = async (required: string): Promise<string> =>
    folderOf(t, { 'pyproject.toml': `[project]\nname = "a"\nversion = "1"\nrequires-python = "${required}"\n` });
  for (const required of ['>=3.11', '>=3.11.4', '>=3.9,<3.13', '==3.11.*', '~=3.11', '!=3.10.*', '<4'])
    await t.notThrowsAsync(mustAllow(await folder(required), '3.11'), required);
  for (const required of ['>=3.12', '<3.11', '>=3.9,<3.11', '==3.12.*', '~=3.12.0'])
    await t.throwsAsync(mustAllow(await folder(required), '3.11'), {
      code: 'INVALID_MANIFEST',
      message: `pyproject.toml requires Python ${required}, and the build is for Python 3.11`,
    });
  await t.notThrowsAsync(mustAllow(await folderOf(t), '3.11'));
});
