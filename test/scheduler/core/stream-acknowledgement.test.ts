/** Which reads of a stream show that earlier chunks have arrived. */
import test from 'ava';

import { acknowledgedBy, chunksFor } from '../../../scheduler/core/jobs/streams.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { newState } from '../../../scheduler/core/state.ts';

const job = { id: 'j', token: 1 };
const kept = { first: 0, next: 2, chunks: [{ inline: Buffer.from('0') }, { inline: Buffer.from('1') }] };

test('a read on the channel of the last reply shows that its chunks arrived, one that was sent again does not', (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  const reader = { after: null, channel: 7, resent: true };
  // Both reads of a broken channel are sent again on the next one; the first is answered with the chunks.
  t.is(chunksFor(state, job, kept, reader).chunks.length, 2);
  t.is(acknowledgedBy(state, job, reader), 0, 'that reply may be lost, if this channel breaks, too');
  t.is(acknowledgedBy(state, job, { ...reader, resent: false }), 2);
  t.is(acknowledgedBy(state, job, { ...reader, channel: 8, resent: false }), 0);
  t.is(acknowledgedBy(state, job, { ...reader, after: { token: 1, next: 1, exact: false } }), 1);
});
