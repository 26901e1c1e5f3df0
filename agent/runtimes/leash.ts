/** Starts programs that do not know the agent, and sets the limits of every worker process. */

/**
 * No core files: they would fill the disk with user data. And when the host runs out of memory, the kernel kills a
 * worker before the agent.
 */
export const LIMITS = 'ulimit -c 0; { echo 500 >/proc/self/oom_score_adj; } 2>/dev/null';

/** Exit codes of a shell that could not run its program: it was not found, or is not executable. */
export function notRun(command: string, code: number | null): string | undefined {
  if (code === 127) return `${command} was not found`;
  return code === 126 ? `${command} is not executable` : undefined;
}

/** Returns command and arguments that run a program with the limits of every worker process, after the lines of `first`. */
export function limited(command: string, args: readonly string[], first: readonly string[] = []): readonly [string, readonly string[]] {
  return ['/bin/sh', ['-c', [...first, LIMITS, 'exec "$@"'].join('; '), 'sh', command, ...args]];
}

/** In a program on a leash, the descriptor whose other end the agent holds. */
export const LEASH_FD = 3;

/**
 * The same with an extra process that kills the whole group when the agent's end of LEASH_FD closes. It is not a child
 * of the program: a program may wait for all of its children.
 */
export function withLeash(command: string, args: readonly string[], first: readonly string[] = []): readonly [string, readonly string[]] {
  const leash = `( { trap '' TERM INT HUP; read -r _ <&${LEASH_FD}; kill -KILL 0; } >/dev/null 2>&1 & )`;
  return ['/bin/sh', ['-c', [...first, leash, `exec ${LEASH_FD}<&-`, LIMITS, 'exec "$@"'].join('; '), 'sh', command, ...args]];
}
