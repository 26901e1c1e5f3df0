/**
 * Ends and removes what runs under a worker's user id or belongs to it: processes, System V IPC, and files in folders
 * that everyone may write to. Only root may, and only for ids that this agent holds (worker-uids.ts).
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { lstat, opendir, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

import { isErrno } from '../../../lib/to-error.ts';
import { removeTree } from '../../runtimes/remove-tree.ts';
import type { UidRange } from '../uid-range.ts';
import { CLEAN_ENVIRONMENT } from './clean-environment.ts';

/** Folders in which every user may create files, on Linux systems as they are installed. */
const PUBLIC_FOLDERS = ['/tmp', '/var/tmp', '/dev/shm', '/dev/mqueue', '/run/lock'];
const STICKY_AND_PUBLIC = 0o1002;
/** A killed process needs processor time to end. */
const ROUNDS = 250;
const ROUND_MS = 20;
/** Rounds after which a process that is still there gets another signal: it may have been started in between. */
const ROUNDS_A_KILL = 10;
/** Processes read in one turn of the event loop; about 20 µs each. */
const READS_A_TURN = 32;

/** Files of /proc/sysvipc, with their column of ids and the option of ipcrm. */
const IPC_KINDS = [
  { file: 'shm', column: 'shmid', option: '-m' },
  { file: 'msg', column: 'msqid', option: '-q' },
  { file: 'sem', column: 'semid', option: '-s' },
] as const;

/**
 * Ends all processes of these user ids and removes what they left. Returns the pids that could not be ended, which are
 * waiting in the kernel; their ids must not be used again. Rejects with file system errors.
 */
export async function removeRemains(uids: UidRange): Promise<number[]> {
  const left = await endProcesses(uids);
  await removeIpc(uids);
  for (const folder of PUBLIC_FOLDERS) await removeFiles(folder, uids);
  return left;
}

async function endProcesses(uids: UidRange): Promise<number[]> {
  // Of a single id, all processes end at once: none can start another in between.
  if (uids.first === uids.last) await killAllOf(uids.first);
  let found = await processesOf(uids);
  for (let round = 0; round < ROUNDS && found.length > 0; round += 1) {
    if (round % ROUNDS_A_KILL === 0) for (const pid of found) kill(pid);
    await pause(ROUND_MS);
    found = await processesOf(uids);
  }
  return found;
}

/**
 * Kills as the user itself: `kill -1` reaches every process of it, and no other. Does nothing if one of them is in a
 * container of another agent.
 */
async function killAllOf(uid: number): Promise<void> {
  const found = await processesOf({ first: uid, last: uid }, 'also foreign');
  if (found.some(({ isForeign }) => isForeign)) return;
  // It fails when there is nothing to kill, and when a process of the user kills it first: the search decides.
  await runAs(uid, ['/bin/sh', '-c', 'kill -KILL -1']);
}

/** Runs a program as the user: it may then do no more than the worker could. Resolves also when it fails. */
async function runAs(uid: number, command: readonly string[]): Promise<void> {
  const user = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--no-new-privs'];
  await new Promise<void>((resolve) => {
    execFile('setpriv', [...user, ...command], { env: CLEAN_ENVIRONMENT, cwd: '/' }, () => resolve());
  });
}

interface FoundProcess {
  readonly pid: number;
  readonly isForeign: boolean;
}

async function processesOf(uids: UidRange): Promise<number[]>;
async function processesOf(uids: UidRange, foreign: 'also foreign'): Promise<FoundProcess[]>;
async function processesOf(uids: UidRange, foreign?: 'also foreign'): Promise<number[] | FoundProcess[]> {
  const found: FoundProcess[] = [];
  const own = await namespacesOf('self');
  let reads = 0;
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    if (++reads % READS_A_TURN === 0) await nextTurn();
    if (!hasUid(name, uids)) continue;
    const { pid, user } = await namespacesOf(name);
    // Another agent in a container has its own pids and our user ids. A worker's own namespace of pids is one of users too.
    const isForeign = pid !== '' && pid !== own.pid && user === own.user;
    found.push({ pid: Number(name), isForeign });
  }
  if (foreign !== undefined) return found;
  return found.filter(({ isForeign }) => !isForeign).map(({ pid }) => pid);
}

/** Real, effective, saved or file system id (proc(5)); false for one that has exited and waits for its parent. */
function hasUid(pid: string, { first, last }: UidRange): boolean {
  let status: string;
  try {
    status = readFileSync(`/proc/${pid}/status`, 'latin1');
  } catch {
    return false; // gone
  }
  if (/^State:\t[ZX]/m.test(status)) return false;
  const [, ids = ''] = /^Uid:\t(.*)$/m.exec(status) ?? [];
  return ids
    .split('\t')
    .map(Number)
    .some((id) => id >= first && id <= last);
}

async function namespacesOf(pid: string): Promise<{ readonly pid: string; readonly user: string }> {
  const link = (name: string): Promise<string> => readlink(`/proc/${pid}/ns/${name}`).catch(() => '');
  return { pid: await link('pid'), user: await link('user') };
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

async function removeIpc(uids: UidRange): Promise<void> {
  for (const { file, column, option } of IPC_KINDS) {
    // A kernel without System V IPC has no such file.
    const [header = '', ...lines] = (await readFile(`/proc/sysvipc/${file}`, 'latin1').catch(() => '')).split('\n');
    const names = fieldsOf(header);
    for (const line of lines) {
      const fields = fieldsOf(line);
      const owners = ['uid', 'cuid'].map((name) => Number(fields[names.indexOf(name)]));
      const owner = owners.find((uid) => uid >= uids.first && uid <= uids.last);
      const id = fields[names.indexOf(column)];
      if (id !== undefined && owner !== undefined) await runAs(owner, ['ipcrm', option, id]);
    }
  }
}

function fieldsOf(line: string): string[] {
  return line.trim().split(/\s+/);
}

/** Only folders of root are searched: in another user's folder, that user decides what a path names. */
async function removeFiles(folder: string, uids: UidRange): Promise<void> {
  const facts = await lstat(folder).catch(() => undefined);
  if (facts?.isDirectory() !== true || facts.uid !== 0 || (facts.mode & STICKY_AND_PUBLIC) !== STICKY_AND_PUBLIC) return;
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    const owner = await lstat(path).then(
      ({ uid }) => uid,
      () => undefined, // removed meanwhile
    );
    if (owner === undefined) continue;
    if (owner >= uids.first && owner <= uids.last) await removeTree(path);
    else if (owner === 0 && entry.isDirectory()) await removeFiles(path, uids);
  }
}
