/** When sessions of the console end (scheduler/core/control/console-sessions.ts). */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import { MAX_SESSIONS } from '../../../scheduler/core/control/console-sessions.ts';
import { SESSION_IDLE_MS } from '../../../scheduler/core/control/key-use.ts';
import { keyDefaults } from '../../../scheduler/core/control/keys.ts';
import type { KeyRow } from '../../../scheduler/core/state/control-rows.ts';
import { FleetWorld } from './fleet-world.ts';

const HOUR_MS = 3_600_000;

function open(): { world: FleetWorld; begin: (hash: string, key?: KeyRow) => unknown; key: KeyRow } {
  const world = new FleetWorld();
  const key: KeyRow = { ...keyDefaults, hash: 'k', account: 'acc', scope: KeyScope.ALL, endpoints: [], name: 'k' };
  for (const hash of ['k', 'other']) world.command({ kind: 'put-key', key: { ...key, hash } });
  const begin = (hash: string, of = key): unknown => {
    const { wall } = world.now();
    return world.command({
      kind: 'put-session',
      session: { ...of, hash, sessionOf: of.hash, createdAt: wall, expiresAt: wall + SESSION_IDLE_MS },
    });
  };
  return { world, begin, key };
}

test('a session ends 12 hours after its last use, also across a restart of the scheduler', (t) => {
  const { world, begin } = open();
  begin('used');
  begin('idle');
  for (let hour = 0; hour < 30; hour += 1) {
    world.command({ kind: 'note-keys', hashes: ['used'] });
    world.pass(HOUR_MS);
    t.is(world.image.keys.has('idle'), hour < 11, `hour ${hour}`);
    t.true(world.image.keys.has('used'));
    if (hour % 10 === 0) world.restart();
  }
  t.is(world.image.keys.get('k')?.usedAt === null, false, 'the use of a session is one of its key');
  world.pass(SESSION_IDLE_MS);
  t.false(world.image.keys.has('used'));
  t.true(world.image.keys.has('k'));
});

test('the last use of a key moves, with at most one write a minute', (t) => {
  const { world } = open();
  const used = (): number => {
    world.command({ kind: 'note-keys', hashes: ['k'] });
    return world.image.keys.get('k')?.usedAt ?? 0;
  };
  const first = used();
  world.pass(59_000);
  t.is(used(), first);
  world.pass(1_000);
  t.is(used(), first + 60_000);
});

test('a session ends with its key: revoked, or expired', (t) => {
  const { world, begin, key } = open();
  begin('a');
  begin('b', { ...key, hash: 'other' });
  world.command({ kind: 'revoke-key', hash: 'k' });
  t.deepEqual([...world.image.keys.keys()], ['other', 'b']);
  const late = begin('late');
  t.is(late instanceof CapstanError ? late.code : '', 'UNAUTHENTICATED', 'its key was revoked meanwhile');

  const expiring = { ...key, hash: 'short', expiresAt: world.now().wall + HOUR_MS };
  world.command({ kind: 'put-key', key: expiring });
  begin('c', expiring);
  world.pass(HOUR_MS);
  t.deepEqual([...world.image.keys.keys()], ['other', 'b']);
});

test('a session keeps no key from being the last one, and one too many ends the one that was idle longest', (t) => {
  const { world, begin } = open();
  world.command({ kind: 'revoke-key', hash: 'other' });
  for (let n = 0; n < MAX_SESSIONS; n += 1) {
    begin(`s${n}`);
    world.pass(1);
  }
  const refused = world.command({ kind: 'revoke-key', hash: 'k' });
  t.is(refused instanceof CapstanError ? refused.code : '', 'CONFLICT');
  world.pass(HOUR_MS);
  world.command({ kind: 'note-keys', hashes: ['s0'] });
  begin('more');
  t.is(world.image.keys.size, MAX_SESSIONS + 1);
  t.deepEqual([world.image.keys.has('s0'), world.image.keys.has('s1')], [true, false]);
  world.command({ kind: 'end-session', hash: 's0' });
  world.command({ kind: 'end-session', hash: 'k' });
  t.deepEqual([world.image.keys.has('s0'), world.image.keys.has('k')], [false, true], 'a key is no session');
});
