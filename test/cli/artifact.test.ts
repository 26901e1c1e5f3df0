/** The artifact: which files it holds, and that the same files give the same bytes. */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, link, mkdir, readdir, readFile, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { list, type ReadEntry } from 'tar';

import { CapstanError } from '../../lib/errors.ts';
import { packArtifact, type Artifact } from '../../compiler/artifact/artifact.ts';
import { unpack } from '../../agent/artifacts/unpack.ts';
import { folderOf } from '../support/folder.ts';

const MANIFEST = '{"resources": {}}\n';

async function entriesOf({ path }: Artifact): Promise<ReadEntry[]> {
  const entries: ReadEntry[] = [];
  await list({ file: path, onReadEntry: (entry) => void entries.push(entry) });
  return entries;
}

async function pathsOf(artifact: Artifact): Promise<string[]> {
  return (await entriesOf(artifact)).map(({ path }) => path);
}

const files = { 'b.ts': 'export const b = 1;\n', 'a/z.ts': 'z', 'a/y.ts': 'y', 'a.ts': 'a' };

test('files in order of path, the manifest among them; digest and size are those of the file', async (t) => {
  const folder = await folderOf(t, files);
  const artifact = await packArtifact(folder, MANIFEST);
  t.deepEqual(await pathsOf(artifact), ['a.ts', 'a/y.ts', 'a/z.ts', 'b.ts', 'tool_manifest.json']);
  t.is(artifact.path, join(folder, '.tool/artifact.tar.gz'));
  t.is(artifact.files, 5);
  const bytes = await readFile(artifact.path);
  t.is(artifact.size, bytes.length);
  t.is(artifact.digest, createHash('sha256').update(bytes).digest('hex'));
  t.deepEqual(await readdir(join(folder, '.tool')), ['artifact.tar.gz']);
});

test('the same files give the same digest: elsewhere, later, by another owner, with other modes and hard links', async (t) => {
  const first = await packArtifact(await folderOf(t, files), MANIFEST);
  const other = await folderOf(t, Object.fromEntries(Object.entries(files).reverse()));
  await utimes(join(other, 'b.ts'), 1, 1);
  await chmod(join(other, 'a.ts'), 0o666);
  await chmod(join(other, 'a/y.ts'), 0o400);
  await rm(join(other, 'a/z.ts'));
  await writeFile(join(other, '.gitignore'), 'copy\n.gitignore\n');
  await writeFile(join(other, 'copy'), 'z');
  await link(join(other, 'copy'), join(other, 'a/z.ts'));
  t.is((await packArtifact(other, MANIFEST)).digest, first.digest);
});

test('another content, name, manifest, or a file that can be run, is another digest', async (t) => {
  const digests = new Set<string>();
  const folder = await folderOf(t, files);
  digests.add((await packArtifact(folder, MANIFEST)).digest);
  digests.add((await packArtifact(folder, '{}')).digest);
  await chmod(join(folder, 'a.ts'), 0o755);
  digests.add((await packArtifact(folder, MANIFEST)).digest);
  await writeFile(join(folder, 'a.ts'), 'A');
  digests.add((await packArtifact(folder, MANIFEST)).digest);
  await writeFile(join(folder, 'c.ts'), '');
  digests.add((await packArtifact(folder, MANIFEST)).digest);
  t.is(digests.size, 5);
});

test('what packs twice packs the same: its own output is no input', async (t) => {
  const folder = await folderOf(t, files);
  const first = await packArtifact(folder, MANIFEST);
  t.is((await packArtifact(folder, MANIFEST)).digest, first.digest);
});

test('secrets, data and version control stay behind; so does what the ignore files name', async (t) => {
  const folder = await folderOf(t, {
    'main.ts': '',
    'tool_manifest.json': '{"env": "as written by hand"}',
    '.env': 'SECRET=1',
    'sub/.env.local': 'SECRET=1',
    '.git/config': '',
    'sub/.git': '',
    '.capstan/secrets/api-key': '',
    '.gitignore': '*.log\n/build/\n!keep.log\n',
    'x.log': '',
    'keep.log': '',
    'build/out.js': '',
    'sub/build/in.js': '',
    'sub/.gitignore': 'private\n!x.log\n',
    'sub/private': '',
    'sub/x.log': '',
    private: '',
    '.toolignore': 'docs\n',
    'docs/page.md': '',
  });
  t.deepEqual(await pathsOf(await packArtifact(folder, MANIFEST)), [
    '.gitignore',
    '.toolignore',
    'keep.log',
    'main.ts',
    'private',
    'sub/.gitignore',
    'sub/build/in.js',
    'sub/x.log',
    'tool_manifest.json',
  ]);
});

test('what setuptools leaves in a project that it builds stays behind', async (t) => {
  const folder = await folderOf(t, {
    'main.py': '',
    'pyproject.toml': '',
    'build/lib/own/a.py': '',
    'build/bdist.linux-x86_64/b': '',
    'own.egg-info/PKG-INFO': '',
    'member/setup.py': '',
    'member/build/lib.linux-x86_64-cpython-311/a.py': '',
    'member/member.egg-info/PKG-INFO': '',
    'web/build/lib/a.js': '',
    'tool/pyproject.toml': '',
    'tool/build/lib/a.py': '',
    'tool/build/notes.md': '',
    'asked/setup.py': '',
    'asked/build/lib/a.py': '',
    '.toolignore': '!asked/build\n',
  });
  t.deepEqual(await pathsOf(await packArtifact(folder, MANIFEST)), [
    '.toolignore',
    'asked/build/lib/a.py',
    'asked/setup.py',
    'main.py',
    'member/setup.py',
    'pyproject.toml',
    'tool/build/lib/a.py',
    'tool/build/notes.md',
    'tool/pyproject.toml',
    'tool_manifest.json',
    'web/build/lib/a.js',
  ]);
});

test('files that look like credentials stay behind with a warning, unless .toolignore asks for them', async (t) => {
  const secret = [
    '.envrc',
    '.aws/credentials',
    'deploy/id_ed25519',
    'deploy/ID_RSA',
    'sub/credentials-prod.json',
    'server.pem',
    '.netrc',
    '.npmrc',
    'a.key',
    'config/prod.env',
    'config/secrets.yaml',
    'deploy/id_rsa.bak',
    'infra/terraform.tfstate.backup',
    'kubeconfig.dev',
  ];
  const harmless = [
    'id_map.json',
    'credentials.py',
    'deploy/id_rsa.pub',
    'environment.yml',
    'keys.py',
    'secrets.py',
    'token.json',
    'python_packages/certifi/cacert.pem',
    'node_modules/tls/test.key',
  ];
  const folder = await folderOf(t, {
    ...Object.fromEntries([...secret, ...harmless].map((path) => [path, 'x'])),
    'certs/public.pem': 'x',
    '.toolignore': '!certs/public.pem\n',
  });
  const artifact = await packArtifact(folder, MANIFEST);
  t.deepEqual(await pathsOf(artifact), [...harmless, '.toolignore', 'certs/public.pem', 'tool_manifest.json'].sort());
  t.deepEqual(
    artifact.leftOut.map((text) => text.replace(/ .*/, '')).sort(),
    secret.map((path) => (path.startsWith('.aws/') ? '.aws' : path)).sort(),
  );
  t.true(artifact.leftOut.includes('server.pem may contain credentials (to pack it, add !server.pem to .toolignore)'));
});

test('private keys stay behind whatever their names, in nested folders and behind links', async (t) => {
  const key = `-----BEGIN OPENSSH PRIVATE KEY-----\nx\n`;
  const folder = await folderOf(t, {
    'deploy/prod': key,
    'gcp.json': JSON.stringify({ type: 'service_account', private_key: '-----BEGIN PRIVATE KEY-----\nx' }),
    'docs.md': key,
    'sub/.env': 'A=1',
    'sub/.env-prod': 'A=1',
    'sub/.ENV.local': 'A=1',
    'sub/public.txt': '-----BEGIN PUBLIC KEY-----\n',
    'wanted.txt': key,
    '.toolignore': '!wanted.txt\n',
  });
  await symlink('sub/.env', join(folder, 'settings'));
  await symlink('deploy', join(folder, 'all-keys'));
  await symlink('sub', join(folder, 'more'));
  const artifact = await packArtifact(folder, MANIFEST);
  t.deepEqual(await pathsOf(artifact), ['.toolignore', 'docs.md', 'more', 'sub/public.txt', 'tool_manifest.json', 'wanted.txt']);
  t.deepEqual(
    artifact.leftOut.toSorted((a, b) => (a < b ? -1 : 1)),
    [
      'all-keys is a link to deploy, which is excluded',
      'deploy/prod contains a private key (to pack it, add !deploy/prod to .toolignore)',
      'gcp.json contains a private key (to pack it, add !gcp.json to .toolignore)',
      'settings is a link to sub/.env, which is excluded',
    ],
  );
  const target = await folderOf(t);
  await unpack(createReadStream(artifact.path), target);
});

test('contents are listed largest first, a package as one', async (t) => {
  const folder = await folderOf(t, {
    'big.bin': 'x'.repeat(1000),
    'a.py': 'x',
    'python_packages/p/a.py': 'x'.repeat(300),
    'python_packages/p/b.py': 'x'.repeat(300),
  });
  t.deepEqual((await packArtifact(folder, MANIFEST)).contents, [
    { name: 'big.bin', size: 1000 },
    { name: 'p', size: 600 },
    { name: 'tool_manifest.json', size: MANIFEST.length },
    { name: 'a.py', size: 1 },
  ]);
});

test('installed dependencies go along whatever .gitignore says, but not what .toolignore names, nor links out', async (t) => {
  const workspace = await folderOf(t, { 'package.json': '{}' });
  const folder = await folderOf(t, {
    '.gitignore': 'node_modules/\n*.map\n',
    '.toolignore': 'node_modules/big\n',
    'main.ts': '',
    'node_modules/left/index.js': '',
    'node_modules/left/index.js.map': '',
    'node_modules/left/.gitignore': 'index.js\n',
    'node_modules/big/index.js': '',
    'node_modules/.cache/x': '',
  });
  await symlink(workspace, join(folder, 'node_modules/shared'));
  await mkdir(join(folder, 'node_modules/.bin'));
  await symlink('../left/index.js', join(folder, 'node_modules/.bin/left'));
  const artifact = await packArtifact(folder, MANIFEST);
  t.deepEqual(await pathsOf(artifact), [
    '.gitignore',
    '.toolignore',
    'main.ts',
    'node_modules/.bin/left',
    'node_modules/left/.gitignore',
    'node_modules/left/index.js',
    'node_modules/left/index.js.map',
    'tool_manifest.json',
  ]);
  t.deepEqual(artifact.leftOut, ['node_modules/shared is a link to a path outside the folder']);
});

const links: [string, string][] = [
  ['to an absolute path', '/etc/passwd'],
  ['to a path above', '../other'],
  ['to nothing', 'nothing'],
];
for (const [what, target] of links) {
  test(`refused: a link ${what}`, async (t) => {
    const folder = await folderOf(t, { 'main.ts': '' });
    await symlink(target, join(folder, 'link'));
    const error = await t.throwsAsync(packArtifact(folder, MANIFEST), { instanceOf: CapstanError });
    t.is(error.code, 'INVALID_ARCHIVE');
    t.regex(error.message, /^link is a broken link or points outside the folder/);
  });
}

test('refused: a link that leaves by way of another', async (t) => {
  const outside = await folderOf(t, { secret: '' });
  const folder = await folderOf(t, { 'node_modules/x': '', 'main.ts': '' });
  await symlink(outside, join(folder, 'node_modules/out'));
  await symlink('node_modules/out/secret', join(folder, 'link'));
  const error = await t.throwsAsync(packArtifact(folder, MANIFEST), { instanceOf: CapstanError });
  t.regex(error.message, /^link is a broken link or points outside the folder/);
});

test('refused: more bytes than an artifact may have; nothing is left of it', async (t) => {
  const folder = await folderOf(t, { 'main.ts': '' });
  await writeFile(join(folder, 'random'), createHash('sha512').update('x').digest().toString('hex').repeat(20));
  const error = await t.throwsAsync(packArtifact(folder, MANIFEST, { limit: 100 }), { instanceOf: CapstanError });
  t.is(error.code, 'INVALID_ARCHIVE');
  t.regex(error.message, /^the artifact is larger than 100 B; its largest parts: random \(2\.6 kB\), /);
  t.deepEqual(await readdir(join(folder, '.tool')), []);
});

test('refused before anything is packed: what will be too large, by its largest folders', async (t) => {
  const folder = await folderOf(t, { 'main.ts': '', 'models/deep/config.json': '{}' });
  await writeFile(join(folder, 'models/deep/weights'), randomBytes(2_000_000));
  await writeFile(join(folder, 'noise'), randomBytes(1_000_000));
  const error = await t.throwsAsync(packArtifact(folder, MANIFEST, { limit: 1_500_000 }), { instanceOf: CapstanError });
  t.regex(
    error.message,
    /^the artifact is larger than 1\.5 MB \(about 3\.0 MB compressed\); its largest parts: models\/ \(2\.0 MB\), noise \(1\.0 MB\), /,
  );
  // Nobody reads the terabyte of a file without content.
  await truncate(join(folder, 'main.ts'), 1e12);
  const sparse = await t.throwsAsync(packArtifact(folder, MANIFEST), { instanceOf: CapstanError });
  t.regex(sparse.message, /^the artifact unpacks to 1000\.0 GB, more than the 4\.0 GB that hosts accept; its largest parts: main\.ts/);
  t.deepEqual(await readdir(join(folder, '.tool')), []);
});

test('files that become small by packing are not refused for their size', async (t) => {
  const folder = await folderOf(t, { 'main.ts': '', 'table.csv': 'one,two,three\n'.repeat(200_000) });
  t.true((await packArtifact(folder, MANIFEST, { limit: 100_000 })).size < 100_000);
});

test('names of every kind arrive as they are, in what the agent unpacks', async (t) => {
  const names = [
    '@at.ts',
    'with space.ts',
    'ünï😀.ts',
    `${'long'.repeat(40)}.ts`,
    `${'d'.repeat(120)}/${'f'.repeat(120)}.ts`,
    '-dash',
    'a[b]*.ts',
  ];
  const folder = await folderOf(t, Object.fromEntries(names.map((name) => [name, `content of ${name}`])));
  await mkdir(join(folder, 'empty'));
  await symlink('-dash', join(folder, 'inner link'));
  const artifact = await packArtifact(folder, MANIFEST);
  const target = await folderOf(t);
  await unpack(createReadStream(artifact.path), target);
  for (const name of names) t.is(await readFile(join(target, name), 'utf8'), `content of ${name}`);
  t.is(await readFile(join(target, 'inner link'), 'utf8'), 'content of -dash');
  t.is(await readFile(join(target, 'tool_manifest.json'), 'utf8'), MANIFEST);
});
