/** Several schedulers on one database, each with a data folder that holds the secrets of the first. */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import type { SchedulerDeps, Status } from '../../scheduler/assembly/start.ts';
import { folderOf } from './folder.ts';
import type { PostgresServer } from './postgres.ts';
import { TestScheduler } from './scheduler-client.ts';

export interface Schedulers {
  /** Address of the database. */
  readonly store: string;
  readonly owner: TestScheduler;
  /** Starts a further one, and closes it after the test. */
  standby(settings?: Record<string, unknown>, deps?: SchedulerDeps): Promise<TestScheduler>;
}

/** A database, its owner, and what further schedulers need. */
export async function schedulersOn(
  t: ExecutionContext,
  server: PostgresServer,
  settings: Record<string, unknown> = {},
): Promise<Schedulers> {
  const store = await server.newDatabase();
  const shared = { store, blobDir: await folderOf(t), isBlobDirShared: 'true', ...settings };
  const owner = await TestScheduler.open(shared);
  t.teardown(() => owner.close());
  return {
    store,
    owner,
    async standby(more = {}, deps = {}) {
      const dataDir = await copyOfSecrets(t, owner.dataDir);
      const standby = await TestScheduler.open({ ...shared, dataDir, ...more }, deps);
      t.teardown(() => standby.close());
      return standby;
    },
  };
}

/** A data folder with the secrets of another. */
export async function copyOfSecrets(t: ExecutionContext, dataDir: string): Promise<string> {
  const folder = await folderOf(t);
  await cp(join(dataDir, 'secrets'), join(folder, 'secrets'), { recursive: true });
  return folder;
}

/** Resolves with a scheduler's status once it is one of this kind. */
export function statusOf({ handle }: TestScheduler, kind: Status['kind'], is: (status: Status) => boolean = () => true): Promise<Status> {
  return new Promise((resolve) => {
    const look = (status: Status): void => {
      if (status.kind === kind && is(status)) resolve(status);
    };
    look(handle.status);
    handle.watch(look);
  });
}
