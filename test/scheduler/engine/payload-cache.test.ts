import test from 'ava';

import { KEPT_BUFFER_BYTES } from '../../../lib/owned-copy.ts';
import { PayloadCache } from '../../../scheduler/engine/payload-cache.ts';

test('an input holds none of the buffer that it came in', (t) => {
  const cache = new PayloadCache(1_000_000);
  const message = Buffer.alloc(65_536, 'x');
  cache.put(1, { inline: message.subarray(10, 20) });
  const kept = cache.get(1);
  t.true(kept !== undefined && 'inline' in kept);
  if (kept === undefined || !('inline' in kept)) return;
  t.is(Buffer.from(kept.inline).toString(), 'xxxxxxxxxx');
  t.is(kept.inline.buffer.byteLength, 10);
});

test('the bound counts what each input takes beside its bytes', (t) => {
  const cache = new PayloadCache(10 * (KEPT_BUFFER_BYTES + 2));
  for (let seq = 0; seq < 20; seq++) cache.put(seq, { inline: Buffer.from('{}') });
  t.is(cache.size, 10);
  t.is(cache.bytes, 10 * (KEPT_BUFFER_BYTES + 2));
  t.is(cache.get(10), undefined);
  cache.delete(3);
  cache.delete(3);
  cache.put(10, { blob: { id: 'ab', size: 1_000_000 } });
  t.is(cache.size, 10);
  t.is(cache.bytes, 10 * (KEPT_BUFFER_BYTES + 2));
  cache.clear();
  t.is(cache.bytes, 0);
});
