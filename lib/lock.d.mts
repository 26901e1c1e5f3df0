/** Acquires the lock at `path`, or returns the process id of its living holder. Throws the file system's errors. */
export function acquireLock(path: string): { release: () => void } | { heldBy: number };

/** Identifies a process on this host, also after its id is used again; `started` is null where the system does not tell. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly started: string | null;
}
export function identityOf(pid: number): ProcessIdentity;
/** Whether the process still runs; false for one that has exited and waits to be reaped. */
export function isRunning(identity: ProcessIdentity): boolean;
