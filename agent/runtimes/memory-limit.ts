/** The limit of a worker's memory: resident bytes of its whole process group, looked at a few times a second. */
import { watchGroup } from './resident-memory.ts';

/** Calls `onOver` with a text for people when the group passes the limit, bytes; 0 for none. Answers how to end the watch. */
export function limitMemory(leader: number, limit: number, onOver: (why: string) => void): () => void {
  if (limit <= 0) return () => undefined;
  return watchGroup(leader, (bytes) => {
    if (bytes > limit) onOver(`memory limit exceeded: ${mebibytes(bytes)} MiB resident, the limit is ${mebibytes(limit)} MiB`);
  });
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024);
}
