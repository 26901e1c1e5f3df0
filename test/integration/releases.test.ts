/** Releases: number, key and commit of each deployment, and what differs between two builds. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

import test, { type ExecutionContext } from 'ava';
import { create } from 'tar';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { folderOf } from '../support/folder.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

type Query = <T>(query: string, key?: string) => Promise<T>;

async function open(t: ExecutionContext): Promise<{ scheduler: TestScheduler; query: Query }> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const first = scheduler.secret('api-key');
  // 503 until the gateway has read the directory.
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers: { authorization: first } })).status === 503);
  const query: Query = async (text, key = first) => {
    const response = await fetch(`${gateway.url}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: text }),
    });
    const { data, errors } = (await response.json()) as { data: never; errors?: [{ message: string }] };
    if (errors !== undefined) throw new Error(errors[0].message);
    return data;
  };
  return { scheduler, query };
}

async function artifact(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<Buffer> {
  const folder = await folderOf(t);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, 'in', path)), { recursive: true });
    await writeFile(join(folder, 'in', path), text);
  }
  await create({ file: join(folder, 'artifact.tgz'), cwd: join(folder, 'in'), gzip: true, portable: true }, Object.keys(files));
  return readFile(join(folder, 'artifact.tgz'));
}

interface Release {
  readonly number: number;
  readonly cause: string;
  readonly key: string | null;
  readonly keyName: string | null;
  readonly source: { readonly commit: string; readonly message: string; readonly isDirty: boolean } | null;
}
const RELEASES =
  '{ builds(environment: "default", endpoint: "echo") { digest release { number cause key keyName source { commit message isDirty } } } }';
const COMMIT = 'a'.repeat(40);

test('a release has its number, the key that deployed it and its commit, also after a rollback', async (t) => {
  const { scheduler, query } = await open(t);
  await scheduler.deploy([{ name: 'echo' }]);
  const digest = await scheduler.putBuild(Buffer.from('the second build'));
  const spec = '{ name: "echo", kind: "ENDPOINT_KIND_QUEUE", functions: [{ name: "f", module: "a.ts" }], workersMax: 1 }';
  const deploy = async (source: string): Promise<unknown> =>
    query(`mutation { deploy(build: "${digest}", endpoints: [${spec}], source: ${source}) { environment } }`);
  await deploy(`{ commit: "${COMMIT}", message: "mend \\\\\\\\ all", isDirty: true }`);
  const releases = async () =>
    (await query<{ builds: { digest: string; release: Release }[] }>(RELEASES)).builds.map(({ release }) => release);
  const [second, first] = await releases();
  t.like(second, { number: 2, cause: 'DEPLOY', keyName: 'first key', source: { commit: COMMIT, isDirty: true } });
  t.regex(second?.key ?? '', /^[0-9a-f]{12}$/);
  t.like(first, { number: 1, cause: 'DEPLOY', source: null });
  await query('mutation { rollback(endpoint: "echo") { environment } }');
  await query('mutation { rollback(endpoint: "echo") { environment } }');
  t.like((await releases())[0], { number: 4, cause: 'ROLLBACK', keyName: 'first key', source: { commit: COMMIT, isDirty: true } });
  const { deployments } = await query<{ deployments: (Release & { endpoints: Pick<Release, 'source'>[] })[] }>(
    '{ deployments { number keyName endpoints { source { commit } } } }',
  );
  t.like(deployments[0], { number: 4, keyName: 'first key', endpoints: [{ source: { commit: COMMIT } }] });
  const { audit } = await query<{ audit: { entries: { after: { commit?: string } }[] } }>(
    '{ audit(filter: { action: "deploy" }) { entries { after } } }',
  );
  t.is(audit.entries[0]?.after.commit, COMMIT);

  for (const [source, field] of [
    ['{ commit: "HEAD", message: "", isDirty: false }', 'source.commit'],
    [`{ commit: "${COMMIT}", message: "two\\nlines", isDirty: false }`, 'source.message'],
    [`{ commit: "${COMMIT}", message: "\\u001b[31m", isDirty: false }`, 'source.message'],
    [`{ commit: "${COMMIT}", message: "${'x'.repeat(201)}", isDirty: false }`, 'source.message'],
  ] as const)
    await t.throwsAsync(deploy(source), { message: new RegExp(`^${field}: must be`) }, source);
});

test('two builds are compared by their files and packages', async (t) => {
  const { scheduler, query } = await open(t);
  const before = await scheduler.putBuild(
    await artifact(t, {
      'app.ts': 'one',
      'same.ts': 'same',
      'gone.ts': 'gone',
      'node_modules/left/package.json': '{"version":"1.0.0"}',
      'python_packages/numpy-1.0.dist-info/METADATA': '',
    }),
  );
  const after = await scheduler.putBuild(
    await artifact(t, {
      'app.ts': 'changed',
      'same.ts': 'same',
      '__proto__/constructor': 'new',
      'node_modules/left/package.json': '{"version":"1.1.0"}',
      'node_modules/left/index.js': 'not listed',
      'node_modules/@a/new/package.json': `{"version":"${'9'.repeat(500)}"}`,
    }),
  );
  const compare = async (from: string, to: string, key?: string) =>
    (
      await query<{ buildDifference: unknown }>(
        `{ buildDifference(from: "${from}", to: "${to}") { files { path sizeBefore sizeAfter } filesOmitted packages { name before after } packagesOmitted } }`,
        key,
      )
    ).buildDifference;
  const expected = {
    files: [
      { path: '__proto__/constructor', sizeBefore: null, sizeAfter: 3 },
      { path: 'app.ts', sizeBefore: 3, sizeAfter: 7 },
      { path: 'gone.ts', sizeBefore: 4, sizeAfter: null },
    ],
    filesOmitted: 0,
    packages: [
      { name: '@a/new', before: null, after: '9'.repeat(100) },
      { name: 'left', before: '1.0.0', after: '1.1.0' },
      { name: 'numpy', before: '1.0', after: null },
    ],
    packagesOmitted: 0,
  };
  t.deepEqual(await compare(before, after), expected);
  t.deepEqual(await compare(before, after), expected, 'as it is kept');

  const broken = await scheduler.putBuild(gzipSync(Buffer.alloc(2_048, 'x')));
  const noArchive = await scheduler.putBuild(Buffer.from('no archive'));
  for (const digest of [broken, noArchive]) await t.throwsAsync(compare(before, digest), { message: /^the artifact cannot be read: / });
  const { createAccount } = await query<{ createAccount: { keyText: string } }>('mutation { createAccount(id: "team") { keyText } }');
  await t.throwsAsync(compare(before, after, createAccount.keyText), { message: /^blob build.* does not exist$/ });
  await t.throwsAsync(compare('x', after), { message: /^from: must be the digest/ });
  t.deepEqual(await compare(before, after), expected, 'a failure leaves nothing behind');
});
