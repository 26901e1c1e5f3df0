/** The feed of changes that pages of the console follow (gateway/console/activity-feed.ts). */
import test, { type ExecutionContext } from 'ava';

import { ActivityFeed, type Reader } from '../../gateway/console/activity-feed.ts';
import { CapstanError } from '../../lib/errors.ts';
import { EndpointActivity } from '../../proto/gen/capstan/v1/control.ts';
import { until } from '../support/until.ts';

interface Event {
  readonly id: string;
  readonly kind: string;
  readonly endpoints: readonly { readonly id: string; readonly inQueue: number }[];
  readonly removed: readonly string[];
}

/** A service with these endpoints: id → jobs in the queue. The end of the test closes its gateway, and so the streams. */
function open(t: ExecutionContext, { isClosing = () => false }: { isClosing?: () => boolean } = {}) {
  const failures: unknown[] = [];
  let hasEnded = false;
  t.teardown(() => {
    hasEnded = true;
  });
  const feed = new ActivityFeed({
    name: 'feed',
    isClosing: () => hasEnded || isClosing(),
    onFailure: (error) => failures.push(error),
    readMs: 5,
    lateMs: 20,
  });
  const queues = new Map<string, number>();
  let reads = 0;
  const follow = (lastEventId?: string) => {
    const events: Event[] = [];
    const state = { isSlow: false, hasEnded: false, session: true, isBroken: false, isAway: false };
    const signs = { alive: 0, stale: 0 };
    /** Reads wait for it. */
    const paused: { until?: Promise<void> } = {};
    const reader: Reader = {
      read: async () => {
        reads += 1;
        await paused.until;
        if (state.isAway) throw new CapstanError('UNAVAILABLE', 'the scheduler is away');
        if (state.isBroken) throw new Error('a fault of ours');
        if (!state.session) throw new CapstanError('UNAUTHENTICATED', 'the session has ended');
        return [...queues].map(([endpointId, inQueue]) => EndpointActivity.fromPartial({ endpointId, inQueue }));
      },
      check: async () => {
        if (!state.session) throw new CapstanError('UNAUTHENTICATED', 'the session has ended');
      },
      send: (text) => {
        if (state.isSlow) return false;
        if (text.startsWith(': alive')) signs.alive += 1;
        if (text.startsWith('event: stale')) signs.stale += 1;
        const [, id, kind, data] = /^id: (.*)\nevent: (.*)\ndata: (.*)\n\n$/.exec(text) ?? [];
        if (id !== undefined && kind !== undefined && data !== undefined)
          events.push({ id, kind, ...(JSON.parse(data) as Pick<Event, 'endpoints' | 'removed'>) });
        return true;
      },
      end: () => {
        state.hasEnded = true;
      },
    };
    return { events, state, signs, paused, leave: feed.add(reader, lastEventId) };
  };
  return { queues, follow, feed, failures, reads: () => reads };
}

const brief = (events: readonly Event[]): string[] =>
  events.map(
    ({ kind, endpoints, removed }) => `${kind} ${endpoints.map(({ id, inQueue }) => `${id}=${inQueue}`).join(',')} -${removed.join(',')}`,
  );

test('a stream begins with everything and goes on with what changes; nothing is sent while nothing does', async (t) => {
  const { queues, follow } = open(t);
  queues.set('a', 0).set('b', 1);
  const { events, leave } = follow();
  await until('everything came', () => events.length > 0);
  queues.set('b', 2);
  await until('the change came', () => events.length > 1);
  queues.delete('a');
  await until('the removal came', () => events.length > 2);
  await new Promise((done) => setTimeout(done, 50));
  t.deepEqual(brief(events), ['all a=0,b=1 -', 'change b=2 -', 'change  -a']);
  leave();
});

test('a reader that comes back gets what it missed, or everything when that is not known', async (t) => {
  const { queues, follow } = open(t);
  queues.set('a', 0).set('b', 0);
  const stays = follow();
  const first = follow();
  await until('everything came', () => first.events.length > 0);
  first.leave();
  queues.set('b', 5);
  await until('the change came', () => stays.events.length > 1);
  const again = follow(first.events[0]?.id);
  t.deepEqual(brief(again.events), ['change b=5 -']);
  for (const unknown of ['other.1', 'feed.99', 'feed.x', 'nonsense'])
    t.deepEqual(brief(follow(unknown).events), ['all a=0,b=5 -'], unknown);
  queues.delete('a');
  await until('the removal came', () => stays.events.length > 2);
  t.deepEqual(brief(follow(again.events[0]?.id).events), ['all b=5 -'], 'what was removed meanwhile is not sent again');
});

test('a slow reader misses changes and then gets everything, and readers share one read', async (t) => {
  const { queues, follow, reads } = open(t);
  queues.set('a', 0);
  const slow = follow();
  const quick = Array.from({ length: 50 }, () => follow());
  await until('everything came', () => slow.events.length > 0);
  slow.state.isSlow = true;
  queues.set('a', 1);
  await until('the change came', () => quick.every(({ events }) => events.length > 1));
  slow.state.isSlow = false;
  await until('everything came', () => slow.events.length > 1);
  t.deepEqual(brief(slow.events), ['all a=0 -', 'all a=1 -']);
  const before = reads();
  await new Promise((done) => setTimeout(done, 100));
  t.true(reads() - before <= 40, 'one read for all of them');
});

test('a stream ends with its session while others go on, and all end when the gateway closes', async (t) => {
  let isClosing = false;
  const { queues, follow, feed } = open(t, { isClosing: () => isClosing });
  queues.set('a', 0);
  const [first, second] = [follow(), follow()];
  await until('everything came', () => second.events.length > 0);
  first.state.session = false;
  await until('its stream ended', () => first.state.hasEnded);
  queues.set('a', 1);
  await until('the other goes on', () => second.events.length > 1);
  t.false(second.state.hasEnded);
  isClosing = true;
  await until('all ended', () => second.state.hasEnded);
  t.true(feed.isIdle);
});

test('a fault ends the streams, is told once, and the next reader begins anew', async (t) => {
  const { queues, follow, failures } = open(t);
  queues.set('a', 0);
  const [first, second] = [follow(), follow()];
  await until('everything came', () => second.events.length > 0);
  first.state.isBroken = true;
  await until('the streams ended', () => first.state.hasEnded && second.state.hasEnded);
  t.is(failures.length, 1);
  const again = follow(second.events[0]?.id);
  await until('everything came', () => again.events.length > 0);
  t.is(again.events[0]?.kind, 'all');
});

test('a read without a change is a sign of life; one that is late or fails says that the data is stale', async (t) => {
  const { queues, follow } = open(t);
  queues.set('a', 0);
  const { events, signs, state, paused } = follow();
  await until('signs of life', () => signs.alive > 2);
  t.is(signs.stale, 0);
  const { promise, resolve } = Promise.withResolvers<void>();
  paused.until = promise;
  await until('a late read is told, again and again', () => signs.stale > 2);
  const late = signs.alive;
  const joined = follow();
  t.is(joined.signs.stale, 1, 'a stream that begins meanwhile learns it at once');
  t.is(signs.alive, late, 'no sign of life meanwhile');
  delete paused.until;
  resolve();
  await until('signs of life', () => signs.alive > late + 2);
  const before = signs.stale;
  state.isAway = true;
  await until('a failed read is told', () => signs.stale > before + 2);
  state.isAway = false;
  const failed = signs.alive;
  await until('signs of life', () => signs.alive > failed + 2);
  t.deepEqual(brief(events), ['all a=0 -']);
});
