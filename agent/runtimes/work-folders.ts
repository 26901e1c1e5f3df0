/**
 * The working folders of this host's workers: one for each start of a worker, in one parent folder, removed with the
 * worker. Leftovers of an earlier agent are removed when the next one starts.
 */
import { mkdtempSync } from 'node:fs';
import { mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { messageOf } from '../../lib/to-error.ts';
import { fillWorkFolder } from './work-folder.ts';
import { readStat } from './process-stat.ts';
import { removeTree } from './remove-tree.ts';

export class WorkFolders {
  readonly #folder: string;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #removals = new Set<Promise<void>>();

  private constructor(folder: string, log: Pick<Logger, 'warn'>) {
    this.#folder = folder;
    this.#log = log;
  }

  /** Empties the folder. None of its workers may run. Rejects when it cannot be created. */
  static async open(folder: string, log: Pick<Logger, 'warn'>): Promise<WorkFolders> {
    const folders = new WorkFolders(folder, log);
    await folders.#remove(folder);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folders;
  }

  /** Returns the path of a new working folder, which its worker fills. Throws when it cannot be created. */
  make(): string {
    return mkdtempSync(join(this.#folder, 'w-'));
  }

  /** Removes a working folder once its worker is gone. A failure is logged; the next start removes the rest. */
  remove(folder: string): void {
    const removal = this.#remove(folder).finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  /** Resolves when all pending removals are done. */
  async close(): Promise<void> {
    await Promise.all(this.#removals);
  }

  async #remove(folder: string): Promise<void> {
    try {
      await removeTree(folder);
    } catch (error) {
      this.#log.warn({ folder, error: messageOf(error) }, 'deleting a working folder failed');
    }
  }
}

const TEMPORARY = /^capstan-run-(\d+)-/;

/**
 * Creates a temporary folder named after this process. Removes those of dead processes, as far as this user is allowed
 * to.
 */
export async function ownTemporaryFolder(): Promise<string> {
  const temporary = tmpdir();
  const dead = (await readdir(temporary)).filter((name) => {
    const [, pid] = TEMPORARY.exec(name) ?? [];
    return pid !== undefined && readStat(Number(pid)) === null;
  });
  await Promise.all(dead.map((name) => removeTree(join(temporary, name)).catch(() => undefined)));
  return mkdtemp(join(temporary, `capstan-run-${process.pid}-`));
}

/** Returns where a foreign program starts: its working folder, which contains the build. Throws file system errors. */
export function workFolderFor({ workFolder, folder }: { readonly workFolder: string; readonly folder: string }): string {
  if (workFolder === '') return folder || '/';
  if (folder !== '') fillWorkFolder(workFolder, folder);
  return workFolder;
}
