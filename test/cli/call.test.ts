/** `capstan call` against a running stack. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { Stack } from '../support/stack.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

const APP = `
export const hello = ({ name, times = 1 }) => ({ greeting: \`Hello, \${name}! \`.repeat(times) });
export async function* count({ n }) { for (let i = 0; i < n; i++) yield { i }; }
export const bad = () => { throw new Error('no luck'); };
export const slow = async () => new Promise(() => {});
`;

test('a job from the command line: input, output, chunks, ends and refusals', async (t) => {
  t.timeout(300_000, 'a stack and some thirty runs of the tool');
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const app = join(await folderOf(t), 'app');
  await mkdir(app);
  await writeFile(join(app, 'app.mjs'), APP);
  const resources = Object.fromEntries(
    ['hello', 'count', 'bad', 'slow'].map((name) => [name, { functions: [{ name, module: 'app.mjs' }] }]),
  );
  await writeFile(join(app, 'tool_manifest.json'), JSON.stringify({ resources }));
  await stack.deploy(app);

  const call = (args: readonly string[], stdin = ''): Promise<{ code: number; out: string; err: string }> =>
    new Promise((resolve) => {
      const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
      const child = execFile(process.execPath, [tool, 'call', ...args], { cwd: app, env }, (error, out, err) => {
        resolve({ code: error === null ? 0 : Number(error.code), out, err });
      });
      child.stdin?.end(stdin);
    });

  /** The same for a person: on a terminal, where `answer` is pressed when the tool asks. */
  const onTerminal = (args: readonly string[], answer = ''): Promise<{ code: number; text: string }> =>
    new Promise((resolve) => {
      const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '', NO_COLOR: '1', NODE: process.execPath, TOOL: tool };
      const command = `stty cols 120; "$NODE" "$TOOL" ${args.join(' ')}`;
      const child = execFile('script', ['-qec', command, '/dev/null'], { cwd: app, env }, (error, text) => {
        resolve({ code: error === null ? 0 : Number(error.code), text: text.replaceAll('\r\n', '\n') });
      });
      // Once: the tool repeats the question with the answer, and the terminal would echo another.
      let isAnswered = false;
      child.stdout?.on('data', (text: string) => {
        if (isAnswered || !text.includes('[y/N]')) return;
        isAnswered = true;
        child.stdin?.write(answer);
      });
    });

  const hello = await call(['hello', 'name=Ada', 'times=2']);
  t.deepEqual([hello.code, JSON.parse(hello.out)], [0, { greeting: 'Hello, Ada! Hello, Ada! ' }], hello.err);
  const fromStdin = await call(['hello', 'times=1', '--json', '-'], '{"name": "Bob", "times": 3}');
  t.deepEqual(JSON.parse(fromStdin.out), { greeting: 'Hello, Bob! ' }, 'a member replaces that of the file');
  const streamed = await call(['count', 'n=3', '--stream']);
  t.deepEqual([streamed.code, streamed.out], [0, '{"i":0}\n{"i":1}\n{"i":2}\n'], streamed.err);

  const failed = await call(['bad']);
  t.deepEqual([failed.code, failed.out], [1, '']);
  t.regex(failed.err, /the job ended FAILED: no luck\nnext: .*capstan jobs get /);
  const submitted = await call(['hello', 'name=Ada', '--async']);
  t.is(submitted.code, 0);
  t.regex(submitted.out, /^[\w-]{36,}\n$/);
  const shown = JSON.parse(await stack.tool('jobs', 'get', 'hello', submitted.out.trim())) as { readonly submittedBy?: string };
  t.regex(shown.submittedBy ?? '', /^[0-9a-f]{12}$/);
  t.like(shown, { status: 'COMPLETED' });
  const whole = await call(['hello', 'name=Ada', '-o', 'json']);
  t.like(JSON.parse(whole.out), { status: 'COMPLETED', output: { greeting: 'Hello, Ada! ' } });
  const unlucky = await call(['bad', '-o', 'json']);
  t.is(unlucky.code, 1);
  t.like(JSON.parse(unlucky.out), { status: 'FAILED' });
  const late = await call(['slow', '--timeout', '1s']);
  t.is(late.code, 69);
  t.regex(late.err, /after 1000 ms\nhint: The job continues\./);

  const refusals: readonly [readonly string[], number, RegExp][] = [
    [['nope'], 66, /endpoint nope not found/],
    [['hello', 'name'], 2, /input: "name" must be <key>=<value>/],
    [['hello', '--json', 'absent.json'], 2, /--json: cannot read absent\.json/],
    [['hello', '--json', 'app.mjs'], 2, /--json: app\.mjs is not JSON/],
    [['hello', '--async', '--stream'], 2, /--stream: not allowed with --async/],
    [['hello', '--timeout', 'soon'], 2, /--timeout: must be a number followed by s, m, h or d/],
  ];
  for (const [args, code, message] of refusals) {
    const ran = await call(args);
    t.is(ran.code, code, args.join(' '));
    t.regex(ran.err, message);
  }

  const story = await onTerminal(['jobs', 'get', 'bad', (JSON.parse(unlucky.out) as { readonly id: string }).id]);
  t.regex(story.text, /^ {2}\d{4}-\d\d-\d\d [\d:]{8} UTC +submitted$/m);
  t.regex(story.text, /^ {2}\+ [\d.]+ m?s +attempt 1 on worker \w+( of [\w-]+)? started$/m);
  t.regex(story.text, /^ {2}\+ [\d.]+ m?s +FAILED$/m);
  const page = await onTerminal(['jobs', 'list', 'hello', '--limit', '2']);
  t.regex(page.text, /^ID +STATUS +AGE /m);
  t.regex(page.text, /hint: These are 1 to 2 of 4 jobs, newest first\nnext: (npx )?capstan jobs list hello --limit 2 --offset 2/);
  const last = await onTerminal(['jobs', 'list', 'hello', '--limit', '2', '--offset', '2']);
  t.regex(last.text, /hint: These are 3 to 4 of 4 jobs, newest first\n$/);

  const unnamed = await onTerminal(['endpoints', 'delete']);
  t.is(unnamed.code, 2);
  t.notRegex(unnamed.text, /y\/N/, 'what is refused is not asked');
  const kept = await onTerminal(['endpoints', 'delete', 'bad'], 'n');
  t.is(kept.code, 75);
  t.regex(kept.text, /Delete endpoint bad of environment default and cancel the queued jobs\? \[y\/N\] no\n✗ nothing was changed/);
  t.is((await onTerminal(['endpoints', 'delete', 'bad'], 'y')).code, 0);
  const unasked = await onTerminal(['endpoints', 'delete', 'slow', '--stop', '--yes']);
  t.is(unasked.code, 0);
  t.notRegex(unasked.text, /y\/N/);
  const names = (JSON.parse(await stack.tool('endpoints', 'list', '--json')) as { readonly name: string }[]).map(({ name }) => name);
  t.deepEqual(names, ['count', 'hello'], 'the one that was kept is deleted by the second call');
});
