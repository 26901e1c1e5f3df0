/** The container runtime over a private engine, for the files of its suites. */
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { ExecutionContext } from 'ava';
import { pino } from 'pino';

import { ContainerRuntime, type ContainerRuntimeOptions } from '../../../agent/runtimes/container/container-runtime.ts';
import { ContainerEngine } from '../../../agent/runtimes/container/engine.ts';
import { bootstrap } from './hosts.ts';

/** A runtime whose workers without an image of their own run in `image`. */
export async function containerRuntime(
  t: ExecutionContext,
  socket: string,
  options: Partial<ContainerRuntimeOptions> = {},
): Promise<ContainerRuntime> {
  // In the engine's own folder: they go together, also when the tests are killed.
  const folder = await mkdtemp(join(dirname(socket), 'runtime-'));
  const engine = new ContainerEngine(socket);
  const runtime = new ContainerRuntime({
    engine,
    folder,
    bootstrap,
    nodeName: 'test-node',
    network: 'auto',
    readOnlyRoots: 'base-images',
    rules: { gpus: 'environment', pids: 512, tmpBytes: 64 * 1024 * 1024, shmBytes: 64 * 1024 * 1024 },
    spares: { count: 0, keptMs: 0 },
    registryAuthFile: undefined,
    log: pino({ level: 'silent' }),
    ...options,
  });
  await runtime.probe();
  t.teardown(async () => {
    await runtime.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  return runtime;
}
