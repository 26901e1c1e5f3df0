/** Secrets on the whole stack: workers see their values, a change replaces warm workers, and no value is stored or said in the clear. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
// Its output is stored: it must not have the value.
const HANDLER = `import { createHash } from 'node:crypto';
const digest = (text = '') => createHash('sha256').update(text).digest('hex');
export const read = () => (console.log('it is', process.env.PLAIN), { token: digest(process.env.TOKEN), url: digest(process.env.URL_WITH_TOKEN), pid: process.pid });
`;
const digest = (text: string): string => createHash('sha256').update(text).digest('hex');
const FIRST = 'first-value-7f3a';
const SECOND = 'second-value-91bc';

const start = sharedStack(test, { CAPSTAN_WEBHOOK_ALLOW_PRIVATE: 'true' });

/** Runs the tool with a value on stdin; returns its exit code and stderr. */
async function set(stack: Stack, value: string, ...args: string[]): Promise<{ code: number; said: string }> {
  const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
  const child = spawn(process.execPath, [bin, 'secret', 'set', ...args], { env, stdio: ['pipe', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  child.stdin.end(value);
  const [code] = (await once(child, 'close')) as [number];
  return { code, said };
}

test('workers start with secrets, wait for missing ones, and are replaced by a change', async (t) => {
  const stack = await start();
  const folder = join(await folderOf(t), 'app');
  await mkdir(folder);
  const env = {
    PLAIN: '{{ CAPSTAN_SECRET_TOKEN }}',
    TOKEN: '{{ RUNPOD_SECRET_TOKEN }}',
    URL_WITH_TOKEN: 'https://user:{{ CAPSTAN_SECRET_TOKEN }}@host',
  };
  const chat = { functions: [{ name: 'read', module: 'read.ts' }], runtime: 'process', env, idleTimeout: 600 };
  await writeFile(join(folder, 'read.ts'), HANDLER);
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify({ resources: { chat } }));
  const id = (await stack.deploy(folder)).get('chat') ?? '';

  const waiting = await stack.run(id, {});
  await until('the job waits for the secret', async () => {
    const job = JSON.parse(await stack.tool('jobs', 'get', id, waiting, '--json')) as { queueReason?: string | null };
    return job.queueReason === 'SECRET_MISSING' ? true : null;
  });
  const made = await set(stack, `${FIRST}\n`, 'TOKEN');
  t.is(made.code, 0, made.said);
  t.regex(made.said, /workers of default\/chat are replaced/);
  const { output: first } = await stack.ended(id, waiting);
  t.like(first, { token: digest(FIRST), url: digest(`https://user:${FIRST}@host`) });
  const { output: warm } = await stack.ended(id, await stack.run(id, {}));
  t.is((warm as { pid: number }).pid, (first as { pid: number }).pid);

  t.is((await set(stack, SECOND, 'TOKEN')).code, 0);
  const { output: second } = await stack.ended(id, await stack.run(id, {}));
  t.like(second, { token: digest(SECOND) });

  const printed = await until('the line is there', async () => {
    const lines = await stack.tool('logs', id);
    return lines.includes('it is') ? lines : null;
  });
  t.regex(printed, /it is \[masked\]/);
  const rows = JSON.parse(await stack.tool('secret', 'list', '--json')) as Record<string, unknown>[];
  t.is(rows.length, 1);
  t.like(rows[0], { name: 'TOKEN', environment: null, usedBy: ['default/chat'] });
  const refused = await t.throwsAsync(stack.tool('secret', 'delete', 'TOKEN'));
  t.regex((refused as { stderr?: string } | undefined)?.stderr ?? '', /used by default\/chat/);
  for (const name of ['A-B', '1A']) {
    const { code, said } = await set(stack, 'hidden-value', name);
    t.not(code, 0);
    t.regex(said, /name: must be a name/);
    t.false(said.includes('hidden-value'));
  }
  t.regex((await set(stack, '', 'EMPTY')).said, /value: must not be empty/);

  for (const value of [FIRST, SECOND]) {
    t.false((await stack.log()).includes(value), 'in a log');
    for (const file of await readdir(stack.dataDir, { recursive: true, withFileTypes: true }))
      if (file.isFile()) {
        const path = join(file.parentPath, file.name);
        t.false((await readFile(path)).includes(value), path);
      }
  }
});
