/** Follows the sources of a project: which of them changed since they were last read. */
import { watch, type FSWatcher } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** File types of code, and ignore files. A function may write any other file while it runs. */
const FOLLOWED = /\.(py|[mc]?[jt]s|[jt]sx|json|toml|lock)$|(^|\/)(\.(git|tool)ignore|\.env|requirements[^/]*\.txt)$/;
const IGNORED = /^(\.git|\.tool|\.capstan|node_modules|python_packages|__pycache__)$/;
/** Hidden files that count. */
const HIDDEN = /^\.((git|tool)ignore|env)$/;

export class SourceWatch {
  readonly #folder: string;
  readonly #onTouched: () => void;
  /** One watcher for each folder: Node's recursive watching misses files that are replaced by others. */
  readonly #watchers = new Map<string, FSWatcher>();
  /** The state of the sources when they were read. */
  #marks: ReadonlyMap<string, string> = new Map();
  #closed = false;

  /** `onTouched`: something in a watched folder changed. */
  constructor(folder: string, onTouched: () => void) {
    this.#folder = folder;
    this.#onTouched = onTouched;
  }

  /** Watches the present folders; returns the sources that were added, removed or changed since the last call. */
  async follow(): Promise<ReadonlySet<string>> {
    const { folders, marks } = await scan(this.#folder);
    for (const [path, watcher] of this.#watchers) {
      if (folders.has(path)) continue;
      watcher.close();
      this.#watchers.delete(path);
    }
    for (const path of folders) if (!this.#watchers.has(path) && !this.#closed) this.#watch(path);
    const changed = new Set([...this.#marks.keys(), ...marks.keys()].filter((path) => this.#marks.get(path) !== marks.get(path)));
    this.#marks = marks;
    return changed;
  }

  /** Returns a text that changes with the sources whose paths match. */
  marksOf(paths: RegExp): string {
    return [...this.#marks]
      .filter(([path]) => paths.test(path))
      .map(([path, mark]) => `${path} ${mark}`)
      .sort()
      .join('\n');
  }

  close(): void {
    this.#closed = true;
    for (const watcher of this.#watchers.values()) watcher.close();
  }

  #watch(path: string): void {
    let watcher: FSWatcher;
    try {
      watcher = watch(join(this.#folder, path), (_event, name) => {
        if (name !== null && !IGNORED.test(name) && !this.#closed) this.#onTouched();
      });
    } catch {
      return; // the folder was removed: the watcher of its parent reports it
    }
    watcher.once('error', () => this.#watchers.delete(path));
    this.#watchers.set(path, watcher);
  }
}

interface Scan {
  /** All folders, `''` for the project's own. */
  readonly folders: ReadonlySet<string>;
  /** Each source with a mark of its content: size, time and inode. */
  readonly marks: ReadonlyMap<string, string>;
}

/** Lists folders and sources, without hidden folders, installed packages and virtual environments. */
async function scan(root: string): Promise<Scan> {
  const folders = new Set<string>();
  const marks = new Map<string, string>();
  const visit = async (path: string): Promise<void> => {
    // A folder or a file that disappears meanwhile is reported by the next event.
    const entries = await readdir(join(root, path), { withFileTypes: true }).catch(() => []);
    if (path !== '' && entries.some(({ name }) => name === 'pyvenv.cfg')) return;
    folders.add(path);
    await Promise.all(
      entries.map(async (entry) => {
        const { name } = entry;
        if (IGNORED.test(name) || (name.startsWith('.') && !HIDDEN.test(name))) return;
        const own = path === '' ? name : `${path}/${name}`;
        if (entry.isDirectory()) await visit(own);
        else if (FOLLOWED.test(own)) {
          const found = await stat(join(root, own)).catch(() => null);
          if (found?.isFile() === true) marks.set(own, `${found.size} ${found.mtimeMs} ${found.ino}`);
        }
      }),
    );
  };
  await visit('');
  return { folders, marks };
}
