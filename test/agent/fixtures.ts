/** An agent under test with its fake scheduler, in a temp folder, gone without trace after the test. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';

import type { ExecutionContext } from 'ava';
import { pino } from 'pino';
import { create } from 'tar';

import { readConfig, type AgentConfigInput } from '../../agent/config.ts';
import { start, type AgentDeps, type AgentHandle } from '../../agent/start.ts';
import type { FunctionSpec, ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { digestOf, FakeScheduler, JOIN_TOKEN } from './fake-scheduler.ts';
import { folderOf } from '../support/folder.ts';

/** A build's archive out of file texts. */
export async function archiveOf(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<Buffer> {
  const folder = await folderOf(t);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, 'build', name)), { recursive: true });
    await writeFile(join(folder, 'build', name), text);
  }
  const file = join(folder, 'build.tar.gz');
  await create({ file, gzip: true, cwd: join(folder, 'build'), portable: true }, Object.keys(files));
  return readFile(file);
}

/** Puts a build into the scheduler's store; answers what a release says of it. */
export async function addBuild(
  t: ExecutionContext,
  scheduler: FakeScheduler,
  files: Readonly<Record<string, string>>,
): Promise<Pick<ReleaseSpec, 'buildDigest' | 'buildSize'>> {
  const archive = await archiveOf(t, files);
  const buildDigest = digestOf(archive);
  scheduler.putBlob(archive, `build/${buildDigest}`);
  return { buildDigest, buildSize: archive.length };
}

export function functionSpec(name: string, module = 'main'): FunctionSpec {
  return { name, module, parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' };
}

export async function startScheduler(t: ExecutionContext): Promise<FakeScheduler> {
  const scheduler = await FakeScheduler.start();
  t.teardown(() => scheduler.stop());
  return scheduler;
}

export interface TestAgent extends AgentHandle {
  readonly dataDir: string;
}

export async function startAgent(
  t: ExecutionContext,
  scheduler: FakeScheduler,
  options: Partial<AgentConfigInput> = {},
  deps: AgentDeps = {},
): Promise<TestAgent> {
  const dataDir = options.dataDir ?? (await folderOf(t));
  const config = readConfig(
    {
      dataDir,
      scheduler: scheduler.address,
      joinToken: JOIN_TOKEN,
      nodeName: 'test-node',
      // Handlers write files of this host.
      isolation: 'none',
      nvidiaSmi: '/nonexistent/nvidia-smi',
      containerSocket: 'none',
      drainMs: 2_000,
      hostEnv: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      // Hosts started ahead save a user's wait; here they would be most of the processes.
      spareHosts: 0,
      ...options,
    },
    {},
  );
  const handle = await start(config, { log: pino({ level: 'silent' }), ...deps });
  t.teardown(() => handle.close());
  return {
    dataDir,
    get nodeId() {
      return handle.nodeId;
    },
    joined: handle.joined,
    removed: handle.removed,
    close: () => handle.close(),
  };
}

/**
 * A scheduler and an agent with one ready worker `w1` that runs `fn` of the module `main`. A text is TypeScript, and the
 * build JavaScript: a host takes three times as long with its first TypeScript module (the runtimes' list has one).
 */
export async function startWorker(
  t: ExecutionContext,
  source: string | Readonly<Record<string, string>>,
  fn: string,
  release: Partial<ReleaseSpec> = {},
  options: Partial<AgentConfigInput> = {},
): Promise<{ scheduler: FakeScheduler; agent: TestAgent; release: Partial<ReleaseSpec> }> {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, typeof source === 'string' ? { 'main.js': stripTypeScriptTypes(source) } : source);
  const agent = await startAgent(t, scheduler, options);
  await scheduler.hello();
  const spec = { ...build, functions: [functionSpec(fn)], ...release };
  scheduler.desire([{}], [spec]);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
  return { scheduler, agent, release: spec };
}
