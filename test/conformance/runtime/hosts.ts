/** The runtimes whose hosts are processes of this machine, as tests make them. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import test from 'ava';

import { stageBootstrap } from '../../../agent/runtimes/bootstrap.ts';
import type { Language } from '../../../agent/runtimes/process/language.ts';
import { AccountReaders } from '../../../agent/runtimes/reading/account-readers.ts';
import { ProcessRuntime } from '../../../agent/runtimes/process/process-runtime.ts';
import type { WorkerLauncher } from '../../../agent/sandbox/launcher.ts';
import { PlainLauncher } from '../../../agent/sandbox/plain-launcher.ts';
import type { Runtime, WorkerEvents } from '../../../agent/runtimes/runtime.ts';
import { ThreadRuntime } from '../../../agent/runtimes/thread/thread-runtime.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin' };
export const bootstrap = await stageBootstrap(join(tmpdir(), 'capstan-test-bootstrap'));

/** Of the workers of all suites of a file: they are read as those of an account on a node. They end with this process. */
export const readers = new AccountReaders({ bootstrap });

/** Without spares unless told otherwise. */
export function threadRuntime(spares = 0, launcher: WorkerLauncher = new PlainLauncher()): ThreadRuntime {
  return new ThreadRuntime({ launcher, bootstrap, baseEnv: launcher.environmentOf(baseEnv), spares });
}

/** Without spares unless told otherwise. */
export function processRuntime(
  spares: Partial<Record<Language, number>> = {},
  python = 'python3',
  launcher: WorkerLauncher = new PlainLauncher(),
): ProcessRuntime {
  return new ProcessRuntime({
    launcher,
    bootstrap,
    baseEnv: launcher.environmentOf(baseEnv),
    spares: { node: 0, python: 0, ...spares },
    python,
  });
}

/** One runtime for all cases of a file. What a case gets ends with `close` the workers that the case started. */
export function shared(runtime: Runtime): () => Runtime {
  test.after.always(() => runtime.close());
  return () => {
    const ends: (() => Promise<void>)[] = [];
    return {
      name: runtime.name,
      start(spec, events) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const exited: WorkerEvents['exited'] = (...end) => {
          resolve();
          events.exited(...end);
        };
        const worker = runtime.start(spec, { ...events, exited });
        ends.push(async () => {
          worker.end(true);
          await promise;
        });
        return worker;
      },
      close: async () => void (await Promise.all(ends.map((end) => end()))),
    };
  };
}
