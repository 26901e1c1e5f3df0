/**
 * Descriptors that this process got from its parent and would pass on to every process it starts. Node closes its own
 * on exec; what a shell or a service manager left open is neither closed nor known to it.
 */
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';

import { isErrno } from '../../../lib/to-error.ts';

const CLOSED_ON_EXEC = 0o2_000_000;
/** Standard input, output and error are replaced in every child. */
const STANDARD = 3;

/** Returns the descriptors above 2 that a child would inherit. */
export function inheritedDescriptors(): number[] {
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd >= STANDARD && isInherited(fd));
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSED_ON_EXEC) === 0;
  } catch (error) {
    // The one that listed the folder.
    if (isErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

type StdioEntry = 'ignore' | 'pipe' | number;

/**
 * Runs `start` with a list of descriptors for a child in which those that it would inherit are /dev/null: Node cannot
 * close them in the child.
 */
export function withoutInherited<T>(stdio: readonly StdioEntry[], start: (stdio: StdioEntry[]) => T): T {
  const inherited = inheritedDescriptors().filter((fd) => stdio[fd] === undefined || stdio[fd] === 'ignore');
  if (inherited.length === 0) return start([...stdio]);
  const nothing = openSync('/dev/null', 'r');
  try {
    const all: StdioEntry[] = Array.from({ length: Math.max(stdio.length, ...inherited.map((fd) => fd + 1)) }, (_, fd) =>
      inherited.includes(fd) ? nothing : (stdio[fd] ?? 'ignore'),
    );
    return start(all);
  } finally {
    closeSync(nothing);
  }
}
