/** Which Python a build is for, and what a project allows. */
import test from 'ava';

import { allowsPython, mustAllow, mustSatisfy, namedPython } from '../../compiler/build/python-version.ts';
import { environmentFor } from '../../compiler/build/python-environment.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import { createTerminal } from '../../terminal/terminal.ts';
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

test('pre-releases, of a host and in a range, compare by their numbers', (t) => {
  const allowed = ['>=3.8 3.14.0rc2', '>=3.14 3.14.0rc2', '>=3.9,<4 3.13.1+', '<3.14.0a0 3.9.18', '>=3.13.0rc1 3.13.0', '>=3.8.* 3.11.2'];
  const refused = ['>=3.13.0rc1 3.9.18', '<3.14.0a0 3.14.0', '<3.14 3.14.0rc2', '~=3.11.2 3.12.0b1', '!=3.9.* 3.9.18', '>=3.12.* 3.11.2'];
  const answer = (each: string): boolean => allowsPython(...(each.split(' ') as [string, string]), 'pyproject.toml');
  for (const each of allowed) t.true(answer(each), each);
  for (const each of refused) t.false(answer(each), each);
});

test('capstan run refuses a Python of this machine that the project or a script does not allow, also without packages', async (t) => {
  const source = 'from capstan import Endpoint\n@Endpoint(name="one")\ndef one(): return 1\n';
  const pyproject = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.99"\n';
  const header = '# /// script\n# requires-python = ">=3.99"\n# ///\n';
  for (const files of [{ 'pyproject.toml': pyproject, 'main.py': source }, { 'main.py': `${header}${source}` }]) {
    const project = await folderOf(t, files);
    const declared = await discover(project, () => undefined);
    const terminal = createTerminal({ out: { write: () => true }, err: { write: () => true }, colours: false });
    const [file] = Object.keys(files);
    await t.throwsAsync(environmentFor(declared, { cacheDir: project, lookUp: () => undefined }, terminal), {
      code: 'INVALID_MANIFEST',
      message: new RegExp(
        `^${file ?? ''} requires Python >=3\\.99, and python3 of this machine, .*, is Python ${declared.pythonVersion ?? ''}$`,
      ),
    });
  }
});

test('versions may be empty, and end with a comma', (t) => {
  for (const required of ['', ' ', ',', '>=3.8,', ' >= 3.8 , ']) t.notThrows(() => mustSatisfy(required, '3.11', 'one.py'), required);
  t.throws(() => mustSatisfy('>=3.12,', '3.11', 'one.py'), { message: 'one.py requires Python >=3.12,, and the build is for Python 3.11' });
});
