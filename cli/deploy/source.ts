/** Reads the commit of a project's folder, to be recorded with its deployment. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { MAX_SOURCE_MESSAGE, sourceMessage, type SourceRevision } from '../../lib/source-revision.ts';
import { TOOL_FOLDER } from '../../compiler/artifact/artifact.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** For each of git's commands, ms. */
const TIMEOUT_MS = 5_000;
const MAX_OUTPUT = 64 * 1024;
const COMMIT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;
/** Settings of a repository that name programs, which git would run. */
const PROGRAMS = String.raw`^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv))$`;

/** Sets, which go before those of the repository: nothing of the project runs because its commit is read. */
type GitSettings = readonly (readonly [name: string, value: string])[];
const QUIET: GitSettings = [
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.untrackedCache', 'false'],
  ['log.showSignature', 'false'],
];

/**
 * Returns the commit, the first line of its message, and whether files of the folder differ from it. Null outside of a git checkout,
 * before its first commit and without git. Says so where git does not answer in time, or refuses the folder.
 */
export async function readSource(
  folder: string,
  terminal: Pick<Terminal, 'warn'>,
  environment: NodeJS.ProcessEnv,
): Promise<SourceRevision | null> {
  const git = (settings: GitSettings, ...args: readonly string[]): Promise<string> => runGit(folder, environment, settings, args);
  try {
    if ((await git(QUIET, 'rev-parse', '--is-inside-work-tree')).trim() !== 'true') return null;
    const [commit = '', message = ''] = (await git(QUIET, 'log', '-1', '--no-show-signature', '--format=%H%x00%s', 'HEAD')).split('\0');
    if (!COMMIT.test(commit)) return null;
    const named = (scope: string): Promise<string> =>
      git(QUIET, 'config', '--null', '--name-only', scope, '--includes', '--get-regexp', PROGRAMS);
    // Without settings of its own, a worktree of several is an error.
    const programs = [await named('--local').catch(noMatch), await named('--worktree').catch(() => '')].join('\0');
    const settings = [...QUIET, ...[...new Set(programs.split('\0'))].flatMap(withoutProgram)];
    return {
      commit,
      message: sourceMessage(message.slice(0, MAX_SOURCE_MESSAGE * 4)),
      isDirty: await isDirty((...args) => git(settings, ...args)),
    };
  } catch (error) {
    const { killed, stderr = '' } = error as { readonly killed?: boolean; readonly stderr?: string };
    if (killed === true) terminal.warn(`git did not answer within ${TIMEOUT_MS / 1_000} s: the release is recorded without its commit`);
    else if (stderr.includes('dubious ownership'))
      terminal.warn('git refuses the folder, which another user owns: the release is recorded without its commit');
    return null;
  }
}

/** A filter that is required, as those of git-crypt and Git LFS are, would fail without its program. */
function withoutProgram(name: string): GitSettings {
  const [, filter] = /^(filter\..*)\.(?:clean|smudge|process)$/s.exec(name) ?? [];
  return [...(name === '' ? [] : [[name, ''] as const]), ...(filter === undefined ? [] : [[`${filter}.required`, 'false'] as const])];
}

/** Without matches the command ends with 1. */
function noMatch(error: unknown): string {
  if ((error as { readonly code?: unknown }).code === 1) return '';
  throw error;
}

async function isDirty(git: (...args: readonly string[]) => Promise<string>): Promise<boolean> {
  const args = ['status', '--porcelain', '--no-renames', '--ignore-submodules=dirty', '--untracked-files=normal'];
  try {
    return (await git(...args, '--', '.', `:(exclude,glob)**/${TOOL_FOLDER}/**`)) !== '';
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return true;
    throw error;
  }
}

async function runGit(folder: string, environment: NodeJS.ProcessEnv, settings: GitSettings, args: readonly string[]): Promise<string> {
  // Variables of git speak of another repository, such as in a hook.
  const inherited: NodeJS.ProcessEnv = Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('GIT_')));
  const own: NodeJS.ProcessEnv = Object.fromEntries(
    settings.flatMap(([name, value], at): [string, string][] => [
      [`GIT_CONFIG_KEY_${at}`, name],
      [`GIT_CONFIG_VALUE_${at}`, value],
    ]),
  );
  const variables = {
    ...{ GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' },
    // What a partial clone lacks is not fetched: a remote may name a program.
    ...{ GIT_NO_LAZY_FETCH: '1', GIT_ALLOW_PROTOCOL: '' },
    GIT_CONFIG_COUNT: String(settings.length),
  };
  const { stdout } = await promisify(execFile)('git', ['--no-pager', ...args], {
    cwd: folder,
    env: { ...inherited, ...variables, ...own },
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT,
  });
  return stdout;
}
