/** What a worker writes stays its own: its working folder goes with it, and the build that others share is what was deployed. */
import { appendFile, chmod, link, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { startAgent, startScheduler, startWorker } from './fixtures.ts';

const SOURCE = `
import { readFileSync, writeFileSync } from 'node:fs';
export function visit() { writeFileSync('mine.txt', process.env.CAPSTAN_WORKER_ID); return { cwd: process.cwd(), data: readFileSync('data.txt', 'utf8'), here: import.meta.dirname }; }
`;
const files = { 'main.js': SOURCE, 'data.txt': 'as deployed' };

interface Visit {
  readonly cwd: string;
  readonly data: string;
  readonly here: string;
}

test('two workers of one build have a working folder each, which is gone when its worker is', async (t) => {
  const { scheduler, agent, release } = await startWorker(t, files, 'visit');
  scheduler.desire([{}, { workerId: 'w2' }], [release]);
  await scheduler.worker('w2', ({ state }) => state === 'WORKER_STATE_IDLE');
  const visits: Visit[] = [];
  for (const workerId of ['w1', 'w2']) {
    scheduler.dispatch({ jobId: workerId, workerId });
    const ended = await scheduler.ended(workerId);
    t.is(ended.error, '');
    visits.push(scheduler.valueOf(ended.output) as Visit);
  }
  const [first, second] = visits as [Visit, Visit];
  t.not(first.cwd, second.cwd);
  t.is(first.here, second.here, 'one build');
  t.is(await readFile(join(first.cwd, 'mine.txt'), 'utf8'), 'w1');
  t.false((await readdir(first.here)).includes('mine.txt'));
  t.is((await stat(join(first.here, 'data.txt'))).mode & 0o777, 0o444);
  scheduler.desire([], []);
  await scheduler.hear('workers', ({ workers }) => workers.length === 0);
  await until('the working folders are gone', async () => (await readdir(join(agent.dataDir, 'agent/work'))).length === 0);
});

test('an agent removes the working folders that an earlier one left', async (t) => {
  const scheduler = await startScheduler(t);
  const dataDir = await folderOf(t);
  await mkdir(join(dataDir, 'agent/work/w-left/deep'), { recursive: true });
  await writeFile(join(dataDir, 'agent/work/w-left/deep/file'), '');
  await startAgent(t, scheduler, { dataDir });
  t.deepEqual(await readdir(join(dataDir, 'agent/work')), []);
});

const changes: Readonly<Record<string, (build: string) => Promise<void>>> = {
  'the content of a file, its time set back': async (build) => {
    const path = join(build, 'data.txt');
    const { atime, mtime } = await stat(path);
    await chmod(path, 0o644);
    await writeFile(path, 'as CHANGED!');
    await chmod(path, 0o444);
    await utimes(path, atime, mtime);
  },
  'a file more': (build) => writeFile(join(build, 'more.js'), ''),
  'a mode': (build) => chmod(join(build, 'main.js'), 0o777),
};

for (const [what, change] of Object.entries(changes)) {
  test(`a build that a worker changed is fetched again for the next worker: ${what}`, async (t) => {
    const { scheduler, agent, release } = await startWorker(t, files, 'visit');
    const build = join(agent.dataDir, 'agent/cache', release.buildDigest ?? '');
    await change(build);
    scheduler.desire([{}, { workerId: 'w2' }], [release]);
    await scheduler.worker('w2', ({ state }) => state === 'WORKER_STATE_IDLE');
    t.is(scheduler.gets.length, 2);
    t.is(await readFile(join(build, 'data.txt'), 'utf8'), 'as deployed');
    t.deepEqual((await readdir(build)).sort(), ['data.txt', 'main.js']);
    // The worker that runs goes on.
    scheduler.dispatch({ jobId: 'j1' });
    t.is((scheduler.valueOf((await scheduler.ended('j1')).output) as Visit).data, 'as deployed');
  });
}

test('a build that is only linked or touched elsewhere, or compiled by Python, is what it was', async (t) => {
  const { scheduler, agent, release } = await startWorker(t, files, 'visit');
  const build = join(agent.dataDir, 'agent/cache', release.buildDigest ?? '');
  await link(join(build, 'data.txt'), join(agent.dataDir, 'a-link'));
  await utimes(join(build, 'main.js'), new Date(), new Date());
  await mkdir(join(build, '__pycache__'));
  await appendFile(join(build, '__pycache__/main.cpython-311.pyc'), 'compiled');
  scheduler.desire([{}, { workerId: 'w2' }], [release]);
  await scheduler.worker('w2', ({ state }) => state === 'WORKER_STATE_IDLE');
  t.is(scheduler.gets.length, 1);
});

test('a program of its own starts in its working folder, with the build in it', async (t) => {
  const worker = await readFile(join(import.meta.dirname, 'foreign_worker.py'), 'utf8');
  const program = `import os\nprint("cwd", os.getcwd(), sorted(os.listdir(".")), flush=True)\nopen("mine.txt", "w").close()\n${worker}`;
  const release = { runtime: 'process', functions: [], command: ['python3', 'worker.py'] };
  const { scheduler, agent, release: spec } = await startWorker(t, { 'worker.py': program, 'data.txt': 'x' }, '', release);
  const [folder] = await readdir(join(agent.dataDir, 'agent/work'));
  const own = await readdir(join(agent.dataDir, 'agent/work', folder ?? ''));
  // The hidden one has the agent's own Node, for its PATH. The build is compiled meanwhile.
  t.deepEqual(own.filter((name) => name !== '__pycache__').sort(), ['.capstan-bin', 'data.txt', 'mine.txt', 'worker.py']);
  t.false((await readdir(join(agent.dataDir, 'agent/cache', spec.buildDigest ?? ''))).includes('mine.txt'));
  scheduler.dispatch({ jobId: 'j1' }, { a: 1 });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
});
