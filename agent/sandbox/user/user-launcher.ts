/**
 * Level `user`: a root agent without a sandbox gives each worker a user id of its own, without capabilities and new
 * privileges. Workers cannot signal or read one another, the agent or its data; they share the host's network, its
 * processes are visible to them, and they may write to folders that every user may write to.
 */
import type { Logger } from 'pino';

import type { ControlGroups } from '../cgroups/control-groups.ts';
import type { LaunchSpec, WorkerLauncher, WorkerPlace, WorkerProcess } from '../launcher.ts';
import { removeTree } from '../../runtimes/remove-tree.ts';
import type { WorkerUids, WorkerUidsOptions } from '../worker-uids.ts';
import { folderOfSlot, Places } from './places.ts';
import { openWorkerUids } from './open-worker-uids.ts';
import { UserProcess } from './user-process.ts';

/** Most processes and threads of one worker; as of a container. */
const PIDS = 4_096;

export interface UserLauncherOptions {
  readonly uids: WorkerUidsOptions;
  /** Folder of the workers' folders, on disk; each of its parents must let every user pass. */
  readonly folder: string;
  /** As in UserProcessContext. */
  readonly hostEnv: Readonly<Record<string, string>>;
  readonly pids?: number;
  readonly groups?: ControlGroups | undefined;
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

export class UserLauncher implements WorkerLauncher {
  readonly level = 'user';
  readonly hasSpares = true;
  readonly #uids: WorkerUids;
  readonly #places: Places;
  readonly #options: UserLauncherOptions;

  private constructor(uids: WorkerUids, places: Places, options: UserLauncherOptions) {
    this.#uids = uids;
    this.#places = places;
    this.#options = options;
  }

  /**
   * Takes user ids, and removes what workers of dead agents left. Rejects with file system errors, and with CONFLICT when
   * other agents use all user ids.
   */
  static async open(options: UserLauncherOptions): Promise<UserLauncher> {
    const uids = await openWorkerUids(options.uids, options.log, (slot) => removeTree(folderOfSlot(options.folder, slot)));
    try {
      return new UserLauncher(uids, await Places.open(options.folder, uids.slot), options);
    } catch (error) {
      uids.close();
      throw error;
    }
  }

  /** A folder for programs that every worker may read; its parents are there, and let every user pass. */
  get programs(): string {
    return this.#places.programs;
  }

  takesSpare(): boolean {
    return true;
  }

  placeOf({ folder, workFolder }: WorkerPlace): WorkerPlace {
    return {
      folder: folder === '' ? '' : this.#places.buildOf(folder),
      workFolder: workFolder === '' ? '' : this.#places.workOf(workFolder),
    };
  }

  environmentOf(base: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    return base;
  }

  refresh(): Promise<boolean> {
    // Its workers see all of the host.
    return Promise.resolve(false);
  }

  launch(order: LaunchSpec): WorkerProcess {
    const { hostEnv, pids = PIDS, groups, log } = this.#options;
    const placeOf = this.placeOf.bind(this);
    return new UserProcess(order, { uids: this.#uids, places: this.#places, placeOf, hostEnv, pids, groups, log });
  }

  /** Removes the workers' folders and gives the user ids back. No worker may be left. Rejects with file system errors. */
  setGateway(): void {
    // Its workers have the host's network.
  }

  async close(): Promise<void> {
    await this.#places.remove();
    this.#uids.close();
  }
}
