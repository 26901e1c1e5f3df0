/** Acquires the lock at `path`, or returns the process id of its living holder. Throws the file system's errors. */
export function acquireLock(path: string): { release: () => void } | { heldBy: number };
