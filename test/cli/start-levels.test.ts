/** `npm start` works as root and as a plain user, with bubblewrap and without, and says which level of isolation it has. */
import { execFile, spawnSync } from 'node:child_process';
import { chmod, mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext, type TestFn } from 'ava';

import { folderOf } from '../support/folder.ts';
import { run } from './fakes/run.ts';

const root = join(import.meta.dirname, '../..');
const SOURCES = [
  'agent',
  'cli',
  'client',
  'compiler',
  'devserver',
  'examples',
  'gateway',
  'lib',
  'proto',
  'scheduler',
  'sdk',
  'supervisor',
  'terminal',
  'tools',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
];
const NOBODY = 65_534;
const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
/** In a mount namespace of its own, bubblewrap is no program. */
const WITHOUT_BWRAP = [
  'unshare',
  '--mount',
  '/bin/sh',
  '-c',
  'for path in /usr/bin/bwrap /bin/bwrap; do [ ! -e $path ] || mount --bind /dev/null $path; done; exec "$@"',
  'sh',
];

const works = (command: readonly string[]): boolean => spawnSync(command[0] ?? '', command.slice(1), { stdio: 'ignore' }).status === 0;
const isRoot = process.getuid?.() === 0;
/** Trial of bubblewrap, as the agent would start it. */
const BWRAP = ['bwrap', '--unshare-pid', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'];
const reasons = {
  root: isRoot ? undefined : 'the tests do not run as root',
  mounts: works([...WITHOUT_BWRAP, 'true']) ? undefined : 'no mount namespace can be made',
  sandbox: works(BWRAP) ? undefined : 'bubblewrap does not work',
  plainSandbox: works([...AS_NOBODY, 'bwrap', '--unshare-user', ...BWRAP.slice(1)])
    ? undefined
    : 'bubblewrap does not work as a plain user',
  program: works([...AS_NOBODY, process.execPath, '--version']) ? undefined : `another user cannot run ${process.execPath}`,
};

interface Case {
  readonly title: string;
  readonly before: readonly string[];
  readonly user?: number;
  readonly level: 'sandbox' | 'user' | 'none';
  readonly says: RegExp | undefined;
  readonly needs: readonly (string | undefined)[];
}

const CASES: readonly Case[] = [
  { title: 'as root', before: [], level: 'sandbox', says: undefined, needs: [reasons.root, reasons.sandbox] },
  {
    title: 'as root without bubblewrap',
    before: WITHOUT_BWRAP,
    level: 'user',
    says: /isolation of workers is incomplete: bwrap is not installed/,
    needs: [reasons.root, reasons.mounts, reasons.program],
  },
  {
    title: 'as a plain user',
    before: AS_NOBODY,
    user: NOBODY,
    level: 'sandbox',
    says: undefined,
    needs: [reasons.root, reasons.program, reasons.plainSandbox],
  },
  {
    title: 'as a plain user without bubblewrap',
    before: [...WITHOUT_BWRAP, ...AS_NOBODY],
    user: NOBODY,
    level: 'none',
    says: /isolation of workers is incomplete: bwrap is not installed/,
    needs: [reasons.root, reasons.mounts, reasons.program],
  },
];

/** A checkout that belongs to the user, as one that the user made. */
async function checkoutOf(t: ExecutionContext, user: number): Promise<string> {
  const folder = await folderOf(t);
  await chmod(folder, 0o755);
  const copy = join(folder, 'capstan');
  await mkdir(copy);
  await promisify(execFile)('cp', ['-a', ...SOURCES.map((name) => join(root, name)), copy]);
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
  await promisify(execFile)('chown', ['-hR', `${user}:${user}`, copy]);
  return copy;
}

for (const { title, before, user = 0, level, says, needs } of CASES) {
  const reason = needs.find((each) => each !== undefined);
  const maybe = (reason === undefined ? test.serial : test.skip) as TestFn;
  maybe(`a first start ${title}${reason === undefined ? '' : ` (skipped: ${reason})`}`, async (t) => {
    const checkout = await checkoutOf(t, user);
    const data = join(checkout, '.capstan');
    const [program, ...args] = [...before, process.execPath, join(checkout, 'cli/capstan.mjs'), 'start'];
    const start = run([...args, '--data-dir', data, '--http-port', '0', '--grpc-port', '0'], {
      program,
      cwd: checkout,
      env: { HOME: checkout },
    });
    t.teardown(async () => {
      start.child.kill('SIGTERM');
      await start.ended;
    });
    await start.hear(/^Press Ctrl\+C to stop it\.$/m);
    t.is((JSON.parse(start.stdout()) as { status: string }).status, 'COMPLETED', start.stderr());
    const log = await readFile(join(data, 'logs/agent.log'), 'utf8');
    const line = log.split('\n').find((each) => each.includes('"isolation of workers"')) ?? '{}';
    t.regex(line, new RegExp(`"(isolation|level)":"${level}"`), log);
    if (says === undefined) t.notRegex(start.stderr(), /bwrap/);
    else t.regex(start.stderr(), says);
    start.child.kill('SIGTERM');
    t.is(await start.ended, 0, start.stderr());
  });
}
