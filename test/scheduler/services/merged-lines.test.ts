/** Lines of several nodes become one page, whatever single nodes send. */
import test from 'ava';

import type { LogLine } from '../../../proto/gen/capstan/v1/nodes.ts';
import { reportedLines } from '../../../scheduler/core/jobs/reported.ts';
import { ignoresFilter, mergedLines, type NodeLines } from '../../../scheduler/services/merged-lines.ts';

function line(us: number, text: string, more: Partial<LogLine> = {}): LogLine {
  return {
    ...{ atMs: BigInt(Math.trunc(us / 1_000)), atUs: BigInt(us), workerId: 'w', releaseId: '', jobId: '', attempt: 0 },
    ...{ stream: 'stdout', level: '', text, fields: '', endpointId: 'e' },
    ...more,
  };
}

const node = (session: number, lines: LogLine[], stoppedAtUs = 0n, error = ''): NodeLines => ({ session, lines, stoppedAtUs, error });
const filter = (oldestFirst: boolean) => ({ jobId: '', releaseId: '', stream: '', level: '', contains: '', pattern: '', oldestFirst });
const MISSING = { missingNodes: ['n3'], unfilteredNodes: ['n4'] };
const NONE = { missingNodes: [], unfilteredNodes: [] };
const textsOf = ({ lines }: { readonly lines: readonly LogLine[] }): string => lines.map(({ text }) => text).join('');

test('the newest lines of all nodes are a page, and the next one goes on before them', (t) => {
  const replies = [node(1, [line(1_000, 'a'), line(4_000, 'd')]), node(2, [line(2_000, 'b'), line(3_000, 'c', { workerId: 'v' })])];
  const page = mergedLines(replies, { limit: 2, filter: filter(false) }, NONE);
  t.is(textsOf(page), 'cd');
  t.deepEqual(page.next, { atUs: 3_000n, workerId: 'v' });
  t.is(textsOf(mergedLines(replies, { limit: 2, filter: filter(true) }, NONE)), 'ab');
  t.is(mergedLines(replies, { limit: 9, filter: filter(false) }, MISSING).next, undefined);
  t.like(mergedLines(replies, { limit: 9, filter: filter(false) }, MISSING), MISSING);
});

test('a node whose search was stopped holds back what lies beyond, which no page then lacks', (t) => {
  const newest = mergedLines(
    [node(1, [line(1_000, 'a'), line(4_000, 'd')]), node(2, [line(3_000, 'c')], 2_000n)],
    { limit: 9, filter: filter(false) },
    NONE,
  );
  t.is(textsOf(newest), 'cd');
  t.true(newest.incomplete);
  t.deepEqual(newest.next, { atUs: 2_001n, workerId: '' });
  const oldest = mergedLines(
    [node(1, [line(1_000, 'a'), line(4_000, 'd')]), node(2, [], 2_000n)],
    { limit: 9, filter: filter(true) },
    NONE,
  );
  t.is(textsOf(oldest), 'a');
  t.deepEqual(oldest.next, { atUs: 1_999n, workerId: '~' });
});

test('a page is bounded by its size, and the next one goes on at its last line', (t) => {
  const text = 'x'.repeat(900_000);
  const replies = [
    node(
      1,
      [1, 2, 3, 4].map((at) => line(at * 1_000, text)),
    ),
  ];
  const newest = mergedLines(replies, { limit: 9, filter: filter(false) }, NONE);
  t.deepEqual(
    newest.lines.map(({ atUs }) => atUs),
    [3_000n, 4_000n],
  );
  t.true(newest.incomplete);
  t.deepEqual(newest.next, { atUs: 3_000n, workerId: 'w' });
  const oldest = mergedLines(replies, { limit: 9, filter: filter(true) }, NONE);
  t.deepEqual(oldest.next, { atUs: 2_000n, workerId: 'w' });
});

test('a filter that a node refuses is the caller’s error', (t) => {
  t.throws(() => mergedLines([node(1, [], 0n, 'pattern: wrong')], { limit: 1, filter: filter(false) }, NONE), { code: 'INVALID_ARGUMENT' });
});

test('lines of other workers are dropped, and facts of another shape are', (t) => {
  const hostile = [
    line(1_000, 'theirs', { workerId: 'x' }),
    line(1_000, 'mine', { atUs: 9_000_000n, jobId: '<b>', releaseId: '../', level: 'LOUD', fields: 'y'.repeat(20_000) }),
  ];
  const lines = reportedLines({ endpointId: 'e', isShown: (worker) => worker === 'w', afterMs: 0n, limit: 9 }, hostile);
  t.deepEqual(lines, [line(1_000, 'mine')]);
});

test('an agent that ignores filters is known by lines without µs, if there is a filter', (t) => {
  const old = { lines: [line(5_000, 'a', { atUs: 0n })] };
  t.true(ignoresFilter({ filter: { ...filter(false), level: 'error' } }, old));
  t.true(ignoresFilter({ filter: filter(true) }, old));
  t.true(ignoresFilter({ filter: { ...filter(false), before: { atUs: 1n, workerId: '' } } }, old));
  t.false(ignoresFilter({ filter: filter(false) }, old));
  t.false(ignoresFilter({ filter: undefined }, old));
  t.false(ignoresFilter({ filter: { ...filter(false), level: 'error' } }, { lines: [line(5_000, 'a')] }));
});

test('a page that is followed ends where one node has not searched yet, and the rest comes later', (t) => {
  const follow = { limit: 9, filter: filter(true), waitMs: 5_000 };
  const replies = [
    { ...node(1, [line(1_000, 'a'), line(3_000, 'c')]), searchedUs: 3_999n },
    { ...node(2, [line(2_000, 'b'), line(5_000, 'e')]), searchedUs: 5_999n },
  ];
  const page = mergedLines(replies, follow, NONE);
  t.is(textsOf(page), 'abc');
  t.true(page.incomplete);
  t.is(textsOf(mergedLines(replies, { ...follow, waitMs: 0 }, NONE)), 'abce');
  t.is(textsOf(mergedLines(replies.slice(1), follow, NONE)), 'be');
  // An agent of an earlier version says nothing of it.
  t.is(textsOf(mergedLines([node(1, [line(1_000, 'a')]), ...replies.slice(1)], follow, NONE)), 'abe');
  // A clock that is far behind does not hold lines back for ever.
  const behind = [
    { ...node(1, []), searchedUs: 1n },
    { ...node(2, [line(9_000_000, 'x')]), searchedUs: 12_000_000n },
  ];
  t.is(textsOf(mergedLines(behind, follow, NONE)), 'x');
});
