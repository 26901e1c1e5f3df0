/** What `npm start` does when a sample cannot be deployed, was undeployed or belongs to the user: the service stays up and says so. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { planSample } from '../../cli/samples/plan.ts';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { run, type Run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const READY = /^Press Ctrl\+C to stop it\.$/m;

interface Row {
  readonly id: string;
  readonly name: string;
  readonly buildDigest: string;
}

/** `capstan <word>` as a stack on this data folder. */
async function serve(t: ExecutionContext, word: 'start' | 'up', data: string, env: Record<string, string> = {}): Promise<Run> {
  const running = run([bin, word, '--data-dir', data, '--http-port', '0', '--grpc-port', '0'], { cwd: data, env });
  t.teardown(async () => {
    running.child.kill('SIGTERM');
    await running.ended;
  });
  await running.hear(READY);
  return running;
}

async function end(t: ExecutionContext, running: Run): Promise<void> {
  running.child.kill('SIGTERM');
  t.is(await running.ended, 0, running.stderr());
}

async function tool(t: ExecutionContext, data: string, ...args: readonly string[]): Promise<string> {
  const running = run([bin, ...args, '--data-dir', data], { cwd: data });
  t.is(await running.ended, 0, running.stderr());
  return running.stdout();
}

const names = async (t: ExecutionContext, data: string): Promise<string[]> =>
  (JSON.parse(await tool(t, data, 'endpoints', 'list', '--json')) as Row[]).map(({ name }) => name).sort();

test.serial('samples that the quota refuses are left out with the way to mend it, and come with the quota', async (t) => {
  const data = await folderOf(t);
  const before = await serve(t, 'up', data);
  await tool(t, data, 'account', 'set', 'default', '--workers', '3');
  await end(t, before);

  // text-analysis wants 3 workers, reference 2.
  const refused = await serve(t, 'start', data);
  t.is((JSON.parse(refused.stdout()) as { status: string }).status, 'COMPLETED', 'the sample that fits serves');
  t.regex(refused.stderr(), /^! the sample endpoint reference is skipped: workersMax: .* would be 5, .*\nhint: .*capstan account set/m);
  t.deepEqual(await names(t, data), ['text-analysis'], 'the service is up');
  await tool(t, data, 'account', 'set', 'default', '--workers', '5');
  await end(t, refused);

  const raised = await serve(t, 'start', data);
  t.notRegex(raised.stderr(), /reference is skipped/);
  t.deepEqual(await names(t, data), ['reference', 'text-analysis']);
  await end(t, raised);

  // The first GPU brings one more endpoint, for which nothing is left.
  const smi = await writeFakeSmi(join(data, 'bin'), {
    gpus: [{ uuid: 'GPU-11111111-2222-3333-4444-555555555555', name: 'NVIDIA RTX 4090' }],
  });
  const withGpu = await serve(t, 'start', data, { CAPSTAN_NVIDIA_SMI: smi });
  t.regex(withGpu.stderr(), /^! the sample endpoint reference-sentiment is skipped: workersMax: .*\nhint: /m);
  t.regex(withGpu.stderr(), /^✓ reference serves GET \/health/m, 'the others go on');
  t.deepEqual(await names(t, data), ['reference', 'text-analysis']);
  await end(t, withGpu);
});

test.serial('a sample that was undeployed stays away, and one that was replaced is left alone and gets no job', async (t) => {
  const data = await folderOf(t);
  const first = await serve(t, 'start', data);
  await tool(t, data, 'endpoints', 'delete', 'reference');
  const own = await folderOf(t, {
    'own.ts': 'export const own = (value: number) => value;\n',
    'tool_manifest.json': JSON.stringify({
      resources: { 'text-analysis': { functions: [{ name: 'own', module: 'own.ts' }], workersMax: 1 } },
    }),
  });
  const [deployed] = JSON.parse(await tool(t, data, 'deploy', own, '--json')) as Row[];
  await end(t, first);

  const second = await serve(t, 'start', data);
  t.regex(
    second.stderr(),
    /^! the sample endpoint reference was deleted and is not deployed again\nhint: .*capstan deploy \S+examples\/reference$/m,
  );
  t.regex(second.stderr(), /^! the endpoint text-analysis has another build than the sample and is left unchanged\nhint: /m);
  t.is(second.stdout(), '', 'no job runs on what belongs to the user');
  const rows = JSON.parse(await tool(t, data, 'endpoints', 'list', '--json')) as Row[];
  t.deepEqual(
    rows.map(({ name, buildDigest }) => [name, buildDigest]),
    [['text-analysis', deployed?.buildDigest]],
  );

  // The printed command brings it back, and then it is a sample again.
  const [, folder = ''] = /capstan deploy (\S+examples\/reference)$/m.exec(second.stderr()) ?? [];
  await tool(t, data, 'deploy', join(data, folder), '--json');
  await end(t, second);
  // What cannot be read is reported, and the service goes on.
  const record = await readFile(join(data, 'samples.json'), 'utf8');
  t.deepEqual(Object.keys(JSON.parse(record) as object).sort(), ['reference', 'text-analysis']);
  await writeFile(join(data, 'samples.json'), '{');
  const third = await serve(t, 'start', data);
  t.regex(
    third.stderr(),
    /^! the sample \S*text-analysis is skipped: cannot read \S+samples\.json: it is not a JSON object of strings\nhint: /m,
  );
  await end(t, third);
});

test('each case of a sample has one plan', (t) => {
  const facts = { digest: 'new', deployed: undefined, recorded: undefined, needsGpu: false, hasGpu: false };
  const plan = (more: Partial<Parameters<typeof planSample>[0]>): string => planSample({ ...facts, ...more }).kind;
  t.is(plan({}), 'deploy');
  t.is(plan({ needsGpu: true }), 'no-gpu');
  t.is(plan({ needsGpu: true, hasGpu: true }), 'deploy');
  t.is(plan({ recorded: 'old' }), 'undeployed');
  t.is(plan({ recorded: 'new', needsGpu: true }), 'undeployed');
  t.is(plan({ deployed: 'new' }), 'present');
  t.is(plan({ deployed: 'new', recorded: 'old' }), 'present');
  t.is(plan({ deployed: 'old', recorded: 'old' }), 'deploy', 'the files of the sample changed');
  t.is(plan({ deployed: 'old', recorded: 'old', needsGpu: true }), 'deploy', 'a GPU that is away does not keep it back');
  t.is(plan({ deployed: 'other', recorded: 'old' }), 'replaced');
  t.is(plan({ deployed: 'other' }), 'replaced');
});
