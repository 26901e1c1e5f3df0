/**
 * The folders of workers at level `user`, outside of the agent's data, which they cannot enter:
 *
 *     <folder>/<first>-<last>/       may be passed through, not listed
 *       builds/<random>/             hard links to a build; only its workers know the name
 *       homes/<random>/              HOME of one process, with tmp/
 *       work/<name>/                 the working folder of one worker
 *       programs/                    our own programs, where the installation cannot hold them
 */
import { execFile } from 'node:child_process';
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { chownSync, mkdirSync } from 'node:fs';
import { chmod, chown, lstat, mkdir, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import { moveUnsynced } from '../../../lib/durable.ts';
import { isErrno } from '../../../lib/to-error.ts';
import { makeReadable } from '../../runtimes/readable.ts';
import { removeTree } from '../../runtimes/remove-tree.ts';
import { show, type UidRange } from '../uid-range.ts';
import { CLEAN_ENVIRONMENT } from './clean-environment.ts';

const run = promisify(execFile);
const PASS_THROUGH = 0o711;
const OTHERS_WRITE = 0o022;

/** Returns the folder of a slot of user ids. */
export function folderOfSlot(folder: string, slot: UidRange): string {
  return join(folder, show(slot));
}

export class Places {
  readonly #folder: string;
  readonly #secret = randomBytes(32);
  /** Builds that are visible or become so, by their folder in the agent's cache. */
  readonly #builds = new Map<string, Promise<void>>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Creates the folder of a slot anew. Rejects with file system errors. */
  static async open(folder: string, slot: UidRange): Promise<Places> {
    const own = folderOfSlot(folder, slot);
    await removeTree(own);
    await mkdir(folder, { recursive: true, mode: PASS_THROUGH });
    // Under systemd it is a state folder, which nobody else may enter; in a pod a volume that everybody may write to.
    const { mode, uid } = await lstat(folder);
    if (uid !== 0) throw new Error(`${folder} belongs to the user ${uid}, not to root`);
    await chmod(folder, (mode & ~OTHERS_WRITE & 0o7777) | PASS_THROUGH);
    for (const path of [own, ...['builds', 'homes', 'work'].map((name) => join(own, name))]) {
      await mkdir(path);
      await chmod(path, PASS_THROUGH);
    }
    return new Places(own);
  }

  /** A folder for programs that every worker may read. */
  get programs(): string {
    return join(this.#folder, 'programs');
  }

  /** Returns where workers see a build. */
  buildOf(folder: string): string {
    return join(this.#folder, 'builds', createHmac('sha256', this.#secret).update(folder).digest('hex'));
  }

  /** Returns the folder of a worker whose working folder is `workFolder` in the agent's data. */
  workOf(workFolder: string): string {
    return join(this.#folder, 'work', basename(workFolder));
  }

  /** Creates the HOME of a user, with the folder `tmp`. Throws file system errors. */
  makeHome(uid: number): string {
    const home = join(this.#folder, 'homes', randomUUID());
    for (const path of [home, join(home, 'tmp')]) {
      mkdirSync(path, { mode: 0o700 });
      chownSync(path, uid, uid);
    }
    return home;
  }

  /** Creates the working folder of a worker, still root's. Rejects with file system errors. */
  async makeWork(work: string): Promise<void> {
    await mkdir(work, { mode: 0o700 });
  }

  /** Makes a build visible where `buildOf` says. Rejects with file system errors. */
  async showBuild(folder: string): Promise<void> {
    await this.#hideRemoved();
    let shown = this.#builds.get(folder);
    if (shown === undefined) {
      shown = this.#link(folder);
      this.#builds.set(folder, shown);
      shown.catch(() => this.#builds.delete(folder));
    }
    await shown;
  }

  /** Gives a folder and the folders below it to a user who has no process yet. */
  async give(folder: string, uid: number): Promise<void> {
    await chown(folder, uid, uid);
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) await this.give(join(folder, entry.name), uid);
    }
  }

  async remove(): Promise<void> {
    await removeTree(this.#folder);
  }

  async #link(build: string): Promise<void> {
    const target = this.buildOf(build);
    const draft = `${target}.new`;
    await makeReadable(build);
    await removeTree(draft);
    try {
      await run('cp', ['-al', '--', build, draft], { env: CLEAN_ENVIRONMENT });
    } catch {
      // The cache is on another file system, or on one without hard links.
      await removeTree(draft);
      await run('cp', ['-a', '--', build, draft], { env: CLEAN_ENVIRONMENT });
    }
    await moveUnsynced(draft, target);
  }

  /** Links keep the space of builds that the cache has removed. */
  async #hideRemoved(): Promise<void> {
    for (const [folder, shown] of this.#builds) {
      const isThere = await lstat(folder).then(
        () => true,
        (error: unknown) => !isErrno(error, 'ENOENT'),
      );
      if (isThere) continue;
      this.#builds.delete(folder);
      await shown.catch(() => undefined);
      await removeTree(this.buildOf(folder));
    }
  }
}
