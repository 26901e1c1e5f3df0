/** Enforces a worker's memory limit: resident bytes of its whole process group, sampled a few times a second. */
import { watchGroup } from './resident-memory.ts';

/**
 * Calls `onOver` with a message when the group exceeds the limit, bytes; 0: no limit. Returns a function that ends the
 * watch.
 * @param inFiles - bytes of the group's files in memory, which count, too
 */
export function limitMemory(leader: number, limit: number, onOver: (why: string) => void, inFiles = (): number => 0): () => void {
  if (limit <= 0) return () => undefined;
  return watchGroup(leader, (bytes) => {
    const files = inFiles();
    if (bytes + files <= limit) return;
    const more = files === 0 ? '' : ` and ${mebibytes(files)} MiB in files in memory`;
    onOver(`memory limit exceeded: ${mebibytes(bytes)} MiB resident${more}, the limit is ${mebibytes(limit)} MiB`);
  });
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}
