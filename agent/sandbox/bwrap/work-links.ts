/**
 * The contents of a working folder that bubblewrap creates for a program: folders of the build as folders, files as
 * links to them, as hosts do it for functions (runtimes/work-folder.ts).
 */
import { readdirSync, type Dirent } from 'node:fs';
import { join } from 'node:path';

import { WHOLE } from '../../runtimes/work-folder.ts';
import { INSIDE, type WorkLink } from './arguments.ts';

/** Bubblewrap takes 9,000 arguments, at most four for an entry. */
const MAX_ENTRIES = 2_000;

/**
 * Returns the entries for a build; undefined when its root alone has too many: its program then runs in the build.
 * Throws file system errors.
 */
export function workLinks(build: string): readonly WorkLink[] | undefined {
  if (build === '') return [];
  const links: WorkLink[] = [];
  const root = entriesOf(build);
  if (root.length > MAX_ENTRIES) return undefined;
  let left = MAX_ENTRIES - root.length;
  const open: (readonly [name: string, entries: readonly Dirent[]])[] = [['', root]];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const [folder, entries] = next;
    for (const entry of entries) {
      const name = join(folder, entry.name);
      const inner = entry.isDirectory() && !WHOLE.test(entry.name) ? entriesOf(join(build, name)) : undefined;
      if (inner === undefined || inner.length > left) links.push({ name, target: join(INSIDE.build, name) });
      else {
        left -= inner.length;
        links.push({ name });
        open.push([name, inner]);
      }
    }
  }
  return links;
}

function entriesOf(folder: string): readonly Dirent[] {
  return readdirSync(folder, { withFileTypes: true });
}
