/** How programs are started that know nothing of the agent, and how every worker's process is limited. */

/**
 * No core files: they would fill the disk with users' data. And when the host runs out of memory,
 * the kernel takes a worker before it takes the agent.
 */
const LIMITS = 'ulimit -c 0; { echo 500 >/proc/self/oom_score_adj; } 2>/dev/null';

/** How the shell ends that could not run the program it was given: it was not found, or is no program. */
export function notRun(command: string, code: number | null): string | undefined {
  if (code === 127) return `${command} was not found`;
  return code === 126 ? `${command} is not executable` : undefined;
}

/** Command and arguments that run a program with the limits every worker's process has. */
export function limited(command: string, args: readonly string[]): readonly [string, readonly string[]] {
  return ['/bin/sh', ['-c', `${LIMITS}; exec "$@"`, 'sh', command, ...args]];
}

/** Descriptor whose other end the agent holds, in a program on a leash. */
export const LEASH_FD = 3;

/**
 * The same with a process beside it that kills the whole group when the agent's end of LEASH_FD
 * closes. It is nobody's child: a program may wait for all of its own.
 */
export function withLeash(command: string, args: readonly string[]): readonly [string, readonly string[]] {
  const leash = `( { trap '' TERM INT HUP; read -r _ <&${LEASH_FD}; kill -KILL 0; } >/dev/null 2>&1 & )`;
  return ['/bin/sh', ['-c', `${leash}; exec ${LEASH_FD}<&-; ${LIMITS}; exec "$@"`, 'sh', command, ...args]];
}
