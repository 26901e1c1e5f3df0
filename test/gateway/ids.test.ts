/** Job ids. */
import test from 'ava';

import { runId, runsyncId } from '../../gateway/jobs/ids.ts';

test('ids have their shapes, are unique and grow', (t) => {
  const ids = Array.from({ length: 20_000 }, () => runId());
  t.is(new Set(ids).size, ids.length);
  t.deepEqual(ids.toSorted(), ids);
  for (const id of ids.slice(0, 600)) t.regex(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-u1$/);
  t.regex(runsyncId(), /^sync-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-u1$/);
});
