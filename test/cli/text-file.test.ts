/** Files that people save in UTF-16 or with a byte order mark are read; what is no text is refused with file and line. */
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { readPyproject } from '../../compiler/build/pyproject.ts';
import { readRequirements } from '../../compiler/build/requirements-file.ts';
import { findLockFile } from '../../compiler/build/lock-files.ts';
import { dependenciesOf } from '../../compiler/build/node-packages.ts';
import { readDotEnv } from '../../terminal/config.ts';
import { listFiles } from '../../compiler/artifact/files.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import { folderOf } from '../support/folder.ts';

type Encode = (text: string) => Buffer;

const utf8: Encode = (text) => Buffer.from(`\ufeff${text}`);
const utf16le: Encode = (text) => Buffer.from(`\ufeff${text}`, 'utf16le');
const utf16be: Encode = (text) => Buffer.from(`\ufeff${text}`, 'utf16le').swap16();
const encodings: Readonly<Record<string, Encode>> = { 'UTF-8 with a BOM': utf8, 'UTF-16LE': utf16le, 'UTF-16BE': utf16be };
const root = join(import.meta.dirname, '../..');
/** `caf` and a byte that is é in Latin-1. */
const LATIN_1 = Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a]);
const nothing = (): undefined => undefined;
const read = {
  requirements: async (folder: string) => (await readRequirements(folder, nothing)).requirements,
  names: async (folder: string) => (await listFiles(folder)).entries.map(({ path }) => path),
};

for (const [name, encode] of Object.entries(encodings)) {
  test(`${name}: requirements, projects, locks, ignore files and .env are read`, async (t) => {
    const folder = await folderOf(t, { 'models/a': '', 'notes/b': '' });
    const files: Readonly<Record<string, string>> = {
      'requirements.txt': 'six==1.17.0\r\n-r more.txt\r\n',
      'more.txt': 'idna # why\r\n',
      'pyproject.toml': '[project]\r\nname = "é"\r\ndependencies = ["attrs"]\r\n',
      'pylock.toml': 'lock-version = "1.0"\r\n',
      '.gitignore': 'models/\r\n',
      '.toolignore': 'notes\r\n',
      '.env': 'KEY="é"\r\n',
    };
    for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), encode(text));
    t.deepEqual(await read.requirements(folder), ['six==1.17.0', 'idna']);
    t.deepEqual((await readPyproject(folder)).dependencies, ['attrs']);
    t.is((await findLockFile(folder))?.text, files['pylock.toml']);
    t.deepEqual((await read.names(folder)).sort(), [
      '.gitignore',
      '.toolignore',
      'more.txt',
      'pylock.toml',
      'pyproject.toml',
      'requirements.txt',
    ]);
    t.is(readDotEnv(folder)['KEY'], 'é');
  });

  test(`${name}: both SDKs read .env`, async (t) => {
    const folder = await folderOf(t);
    await writeFile(join(folder, '.env'), encode('# key\r\nSERVICE_API_KEY="cap_é"\r\n'));
    const ofNode = `import { dotEnvVariable } from ${JSON.stringify(join(root, 'sdk/typescript/dot-env.ts'))}; console.log(dotEnvVariable('SERVICE_API_KEY'));`;
    const ofPython = 'from capstan.dot_env import dot_env_variable; print(dot_env_variable("SERVICE_API_KEY"))';
    const env = {
      PATH: process.env['PATH'],
      PYTHONPATH: join(root, 'sdk/python'),
      PYTHONIOENCODING: 'utf-8',
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const options = { cwd: folder, env, encoding: 'utf8' } as const;
    t.is(execFileSync(process.execPath, ['--input-type=module', '--eval', ofNode], options).trim(), 'cap_é');
    t.is(execFileSync('python3', ['-c', ofPython], options).trim(), 'cap_é');
  });
}

test('what is no text is refused with file and line', async (t) => {
  const folder = await folderOf(t);
  const refusals: Readonly<Record<string, (folder: string) => unknown>> = {
    'requirements.txt': read.requirements,
    'pyproject.toml': readPyproject,
    'uv.lock': findLockFile,
    '.gitignore': read.names,
    '.toolignore': read.names,
    'package.json': dependenciesOf,
  };
  for (const [name, reader] of Object.entries(refusals)) {
    for (const [bytes, line] of [
      [Buffer.concat([Buffer.from('# one\n# two\n'), LATIN_1]), 3],
      [Buffer.from('one\nt\0w\0o\0\n'), 2],
    ] as const) {
      const path = join(folder, name);
      await writeFile(path, bytes);
      const error = await t.throwsAsync(async () => reader(folder), { code: 'INVALID_MANIFEST' }, name);
      t.true(
        error.message.startsWith(`${name}:${line}: the file must be text in UTF-8, or in UTF-16 with a byte order mark`),
        error.message,
      );
      await writeFile(path, '');
    }
  }
  await writeFile(join(folder, '.env'), LATIN_1);
  t.regex(t.throws(() => readDotEnv(folder), { code: 'CONFIG' }).message, /\.env:1: the file must be text in UTF-8/);
});

test('sources and package.json must be UTF-8, because Python and Node read nothing else', async (t) => {
  const sources: Readonly<Record<string, string>> = {
    'one.py': 'from capstan import Endpoint\n\n@Endpoint(name="one")\ndef one():\n    return "é"\n',
    'one.ts': "import { endpoint } from '@capstan/sdk';\nexport const one = endpoint({ name: 'one' }, () => 'é');\n",
  };
  for (const [name, source] of Object.entries(sources)) {
    const folder = await folderOf(t);
    await writeFile(join(folder, name), utf8(source));
    t.is((await discover(folder, nothing)).endpoints[0]?.name, 'one', name);
    for (const [encode, encoding] of [
      [utf16le, 'UTF-16LE'],
      [utf16be, 'UTF-16BE'],
    ] as const) {
      await writeFile(join(folder, name), encode(source));
      const error = await t.throwsAsync(discover(folder, nothing), { code: 'INVALID_MANIFEST' });
      t.is(error.message, `${name}:1: the file must be UTF-8, which ${name.endsWith('.py') ? 'Python' : 'Node'} reads; it is ${encoding}`);
    }
  }
  const folder = await folderOf(t);
  await writeFile(join(folder, 'package.json'), utf8('{"dependencies": {"six": "1"}}'));
  t.deepEqual(await dependenciesOf(folder), { six: '1' });
  await writeFile(join(folder, 'package.json'), utf16le('{}'));
  await t.throwsAsync(dependenciesOf(folder), { message: 'package.json:1: the file must be UTF-8, which Node reads; it is UTF-16LE' });
});

test('a source that is not UTF-8 in Node is refused with its line; Python reads the encoding that a source declares', async (t) => {
  const folder = await folderOf(t);
  const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');
  await writeFile(
    join(folder, 'one.ts'),
    latin1("import { endpoint } from '@capstan/sdk';\nexport const one = endpoint({ name: 'one' }, () => 'é');\n"),
  );
  await t.throwsAsync(discover(folder, nothing), { message: /^one\.ts:2: the file must be text in UTF-8/ });
  await writeFile(join(folder, 'one.ts'), '');
  const source = 'from capstan import Endpoint\n\n@Endpoint(name="one")\ndef one():\n    return "é"\n';
  await writeFile(join(folder, 'one.py'), latin1(`# -*- coding: latin-1 -*-\n${source}`));
  t.is((await discover(folder, nothing)).endpoints[0]?.name, 'one');
  await writeFile(join(folder, 'one.py'), latin1(source));
  await t.throwsAsync(discover(folder, nothing), { message: /^one\.py:\d+:\d+: .*utf-8/ });
});
