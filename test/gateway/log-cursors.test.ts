/** Cursors of pages of log lines, from which a reader goes on or waits for later lines. */
import test from 'ava';

import { cursorOf, endOf, logRequest } from '../../gateway/logs/query.ts';
import { GetLogsResponse } from '../../proto/gen/capstan/v1/control.ts';

const NOW = 1_800_000_000_000;

function page(times: readonly number[], next?: number) {
  return GetLogsResponse.fromPartial({
    lines: times.map((ms) => ({ atUs: BigInt(ms) * 1_000n, workerId: 'w' })),
    ...(next === undefined ? {} : { next: { atUs: BigInt(next) * 1_000n, workerId: 'n' } }),
  });
}

/** Where a search that goes on at a cursor begins, ms. */
function begin(cursor: string): number {
  const { filter } = logRequest('e', { oldestFirst: true, cursor }, 0);
  return Number(filter?.after?.atUs ?? 0n) / 1_000;
}

test('the end of the newest lines is behind their last one, though their cursor leads to older ones', (t) => {
  const found = page([NOW - 20, NOW - 10], NOW - 20);
  t.is(begin(endOf(found, {}, NOW)), NOW - 10);
  t.not(cursorOf(found, false), endOf(found, {}, NOW));
});

test('without lines the end is a little before now, and a reader that waits stays where it is', (t) => {
  const from = begin(endOf(page([]), {}, NOW));
  t.true(from < NOW - 4_000 && from > NOW - 6_000);
  t.is(begin(endOf(page([]), {}, 0)), 0);
  const cursor = endOf(page([NOW]), {}, NOW);
  t.is(endOf(page([]), { oldestFirst: true, cursor }, NOW + 60_000), cursor);
});

test('a search of later lines that is not complete goes on where it stopped', (t) => {
  t.is(begin(endOf(page([NOW - 10], NOW - 5), { oldestFirst: true }, NOW)), NOW - 5);
  t.is(begin(endOf(page([], NOW - 5), { oldestFirst: true }, NOW)), NOW - 5);
});
