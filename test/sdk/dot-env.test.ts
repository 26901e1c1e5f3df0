/** SERVICE_API_KEY of `.env`: in the working folder for both SDKs, in the project for the tool, with one reading of the file. */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv, promisify } from 'node:util';

import test from 'ava';

import { parseDotEnv } from '../../sdk/typescript/dot-env.ts';
import { folderOf } from '../support/folder.ts';
import { Stack } from '../support/stack.ts';

const root = join(import.meta.dirname, '../..');
const run = promisify(execFile);
const cases = JSON.parse(readFileSync(join(import.meta.dirname, 'dot-env.json'), 'utf8')) as readonly (readonly [string, string | null])[];
const hasPython = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 8))']).status === 0;

for (const [text, expected] of cases) {
  test(`TypeScript and the tool read ${JSON.stringify(text)}`, (t) => {
    t.is(parseDotEnv(text, 'SERVICE_API_KEY') ?? null, expected);
    const ofTool = parseEnv(text)['SERVICE_API_KEY'];
    t.is(ofTool === undefined || ofTool === '' ? null : ofTool, expected);
  });
}

test('the key of .env reaches the service from both SDKs and from a deployment of the project', async (t) => {
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const folder = await folderOf(t, {
    'call.mjs': `import { Endpoint } from ${JSON.stringify(join(root, 'sdk/typescript/sdk.ts'))};
console.log(await new Endpoint(process.argv[2]).runSync({ name: 'Ada' }));\n`,
    'call.py': `import sys, capstan\nprint(capstan.Endpoint(sys.argv[1]).run_sync({"name": "Ada"}))\n`,
    'project/hello.ts': `import { endpoint } from '@capstan/sdk';
export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string) => \`Hello, \${name}!\`);\n`,
  });
  const elsewhere = join(folder, 'elsewhere');
  await mkdir(elsewhere);
  const dotEnv = `# ours\nSERVICE_API_KEY="${stack.apiKey}"\n`;
  const env = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    PYTHONPATH: join(root, 'sdk/python'),
    PYTHONDONTWRITEBYTECODE: '1',
    CAPSTAN_URL: stack.url,
    CAPSTAN_DATA_DIR: join(folder, 'data'),
    HOME: elsewhere,
    NO_COLOR: '1',
  };
  const deploy = (): Promise<{ stdout: string; stderr: string }> =>
    run(process.execPath, [join(root, 'cli/main.ts'), 'deploy', join(folder, 'project'), '--json'], { cwd: elsewhere, env });
  const refusal = await t.throwsAsync<Error & { code: number; stderr: string }>(deploy());
  t.regex(refusal.stderr, /SERVICE_API_KEY: no API key is set for/);
  await writeFile(join(folder, 'project/.env'), dotEnv);
  const { stdout, stderr } = await deploy();
  const [{ id }] = JSON.parse(stdout) as [{ id: string }];
  t.false(stderr.includes(stack.apiKey), 'the key is not shown');
  // The printed call takes the key from that file.
  const [, command = ''] = /^next: curl (.*)$/m.exec(stderr) ?? [];
  const fakeCurl = join(root, 'test/cli/fakes/curl.ts');
  const called = await run('/bin/sh', ['-c', `"$NODE" "$CURL" ${command}`], { env: { ...env, NODE: process.execPath, CURL: fakeCurl } });
  t.is((JSON.parse(called.stdout) as { status: string }).status, 'COMPLETED');

  const languages: [string, string][] = [
    [process.execPath, 'call.mjs'],
    ...(hasPython ? [['python3', 'call.py'] as [string, string]] : []),
  ];
  if (!hasPython) t.log('there is no Python 3.8 or newer');
  for (const [program, file] of languages) {
    const call = (): Promise<{ stdout: string }> => run(program, [join(folder, file), id], { cwd: elsewhere, env });
    const missing = await t.throwsAsync<Error & { stderr: string }>(call());
    t.regex(missing.stderr, /no API key: .*SERVICE_API_KEY, in the environment or in \.env of the working folder/);
    await writeFile(join(elsewhere, '.env'), dotEnv);
    t.is((await call()).stdout.trim(), 'Hello, Ada!');
    await rm(join(elsewhere, '.env'));
  }
});
