/**
 * The environment of everything that runs as root for a worker. A release's variables must not reach it: LD_PRELOAD,
 * PATH or LOCPATH would have root run a program of the release.
 */
export const CLEAN_ENVIRONMENT: Readonly<Record<string, string>> = Object.freeze({
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
});

/** Names that a shell keeps for itself: assigning to them fails in some shells. */
const OF_THE_SHELL = /^(?:UID|EUID|PPID|GROUPS|OPTIND|BASHOPTS|BASH_VERSINFO|SHELLOPTS)$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Returns a shell script that exports the environment. A shell with the worker's user id reads it from its standard
 * input: arguments of a process, unlike its environment, are visible to every user.
 */
export function exportsOf(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .filter(([name]) => NAME.test(name) && !OF_THE_SHELL.test(name))
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", String.raw`'\''`)}'\n`)
    .join('');
}
