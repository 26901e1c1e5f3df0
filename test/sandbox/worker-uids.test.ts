/** User ids of workers: which ranges are refused, and how agents of one host share one. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';

import test, { type ExecutionContext } from 'ava';

import { usableUidRange, type HostIds, type UidRange } from '../../agent/sandbox/uid-range.ts';
import { WorkerUids } from '../../agent/sandbox/worker-uids.ts';
import { CapstanError } from '../../lib/errors.ts';
import { folderOf } from '../support/folder.ts';

const HOST: HostIds = {
  passwd: 'root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\n',
  group: 'root:x:0:\nada:x:1000:\nrender:x:200500:\n',
  subuid: 'ada:100000:65536\n',
  subgid: 'ada:300000:65536\n',
  uidMap: '         0          0 4294967295\n',
};

const refusals: Readonly<Record<string, readonly [range: string, message: RegExp]>> = {
  'a word': ['many', /^CAPSTAN_WORKER_UIDS: must be two user ids as in 1900000000-1900065535, not "many"$/],
  'one id': ['5000', /must be two user ids/],
  'a negative id': ['-5-5000', /must be two user ids/],
  root: ['0-5000', /must not contain 0, the user id of root$/],
  'the wrong order': ['6000-5000', /must contain at least 64 user ids$/],
  'too few': ['5000-5062', /must contain at least 64 user ids$/],
  'ids that are negative to some programs': ['2147483600-2147483700', /must end at 2147483647 or earlier$/],
  'a user of the host': ['500-1500', /contains 1000, the id of the user ada in \/etc\/passwd$/],
  'a group of the host': ['200000-201000', /contains 200500, the id of the group render in \/etc\/group$/],
  "the ids of a user's containers": ['165000-166000', /overlaps the ids that \/etc\/subuid or \/etc\/subgid gives to containers of ada$/],
  "the groups of a user's containers": ['299000-300000', /containers of ada$/],
};

for (const [what, [range, message]] of Object.entries(refusals)) {
  test(`a range is refused: ${what}`, (t) => {
    t.throws(() => usableUidRange(range, HOST), { instanceOf: CapstanError, code: 'CONFIG', message });
  });
}

test('a range of free ids is used', (t) => {
  t.deepEqual(usableUidRange('20000-20063', HOST), { first: 20_000, last: 20_063 });
});

test('without a setting, the default is one that exists in the user namespace', (t) => {
  t.deepEqual(usableUidRange(undefined, HOST), { first: 1_900_000_000, last: 1_900_065_535 });
  t.deepEqual(usableUidRange(undefined, { ...HOST, uidMap: '' }), { first: 1_900_000_000, last: 1_900_065_535 });
  const small = { ...HOST, uidMap: '         0     100000      65536\n' };
  t.deepEqual(usableUidRange(undefined, small), { first: 30_000, last: 59_999 });
  t.throws(() => usableUidRange('1900000000-1900065535', small), {
    message: 'CAPSTAN_WORKER_UIDS: 1900000000-1900065535 does not exist in the user namespace of this container',
  });
  const taken = { ...small, passwd: 'ada:x:40000:40000::/home/ada:/bin/bash' };
  t.throws(() => usableUidRange(undefined, taken), {
    message: /^CAPSTAN_WORKER_UIDS: must be set to a range of free user ids: the default /,
  });
});

const RANGE: UidRange = { first: 70_000, last: 70_000 + 2_047 };

async function openUids(
  t: ExecutionContext,
  locks: string,
  folder: string,
  sweep: (slot: UidRange) => Promise<void> = () => Promise.resolve(),
): Promise<WorkerUids> {
  const uids = await WorkerUids.open({ range: RANGE, folder, locks }, sweep);
  t.teardown(() => uids.close());
  return uids;
}

test('each worker has an id of its own, and one that ended is used again last', async (t) => {
  const uids = await openUids(t, await folderOf(t), '/data/agent');
  const first = uids.take();
  uids.free(first);
  const others = Array.from({ length: 1_023 }, () => uids.take());
  t.is(new Set([first, ...others]).size, 1_024);
  t.true(others.every((uid) => uid >= uids.slot.first && uid <= uids.slot.last));
  t.is(uids.take(), first);
  t.throws(() => uids.take(), { code: 'UNAVAILABLE', message: /^all user ids of this agent \(\d+-\d+\) are taken by workers$/ });
});

test('an id is free once, however often it is returned', async (t) => {
  const uids = await openUids(t, await folderOf(t), '/data/agent');
  const uid = uids.take();
  uids.free(uid);
  uids.free(uid);
  uids.free(RANGE.last + 1);
  const all = Array.from({ length: 1_024 }, () => uids.take());
  t.is(new Set(all).size, 1_024);
});

test('agents of one host use different ids, and as many agents as there are slots', async (t) => {
  const locks = await folderOf(t);
  const one = await openUids(t, locks, '/data/agent');
  const other = await openUids(t, locks, '/data/agent');
  t.not(one.slot.first, other.slot.first);
  await t.throwsAsync(openUids(t, locks, '/data/agent'), {
    code: 'CONFLICT',
    message: 'other agents of this host use all user ids of CAPSTAN_WORKER_UIDS (70000-72047)',
  });
  other.close();
  t.deepEqual((await openUids(t, locks, '/data/other')).slot, other.slot);
});

test('the slot of an agent that was killed is swept before it is used again, and that of one that lives is not', async (t) => {
  const locks = await folderOf(t);
  const living = await openUids(t, locks, '/data/agent');
  const program = `
    import { WorkerUids } from ${JSON.stringify(new URL('../../agent/sandbox/worker-uids.ts', import.meta.url).href)};
    const uids = await WorkerUids.open(${JSON.stringify({ range: RANGE, folder: '/data/agent', locks })}, async () => undefined);
    console.log(JSON.stringify(uids.slot));
    setInterval(() => undefined, 1_000);`;
  const agent = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(agent, 'exit');
  const [line] = (await once(agent.stdout, 'data')) as [Buffer];
  const slot = JSON.parse(line.toString()) as UidRange;
  const swept: UidRange[] = [];
  const sweep = (each: UidRange): Promise<void> => Promise.resolve(void swept.push(each));
  await t.throwsAsync(openUids(t, locks, '/data/agent', sweep), { code: 'CONFLICT' });
  t.deepEqual(swept, []);
  agent.kill('SIGKILL');
  await ended;
  await t.throwsAsync(
    openUids(t, locks, '/data/agent', () => Promise.reject(new Error('no'))),
    { message: 'no' },
  );
  t.deepEqual((await openUids(t, locks, '/data/agent', sweep)).slot, slot);
  t.deepEqual(swept.at(-1), slot);
  t.true(swept.every((each) => each.first === slot.first));
  t.deepEqual((await readdir(locks)).sort(), [living.slot, slot].map(({ first, last }) => `${first}-${last}`).sort());
});
