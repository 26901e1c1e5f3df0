/** Takes the lock at `path`, or gives the process id of its living holder. Throws the file system's errors. */
export function acquireLock(path: string): { release: () => void } | { heldBy: number };
