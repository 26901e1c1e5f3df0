/** Which reads of a stream show that earlier chunks have arrived. */
import test from 'ava';

import { acknowledgedBy, chunksFor } from '../../../scheduler/core/jobs/streams.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { newState } from '../../../scheduler/core/state.ts';

const job = { id: 'j', token: 1 };
const kept = { first: 0, next: 2, chunks: [{ inline: Buffer.from('0') }, { inline: Buffer.from('1') }] };

test('a read that was sent before the reply to another one arrived shows nothing: the reply may be lost with the channel', (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  const first = { after: null, channel: 7, resent: false };
  // Two reads within one round trip: the first is answered with the chunks, the second comes before that answer arrives.
  t.is(chunksFor(state, job, kept, first).chunks.length, 2);
  t.is(acknowledgedBy(job, first), 0, 'they are kept');
  t.is(chunksFor(state, job, kept, first).chunks.length, 0, 'and in transit');
  // The channel breaks: both are sent again on the next one, and the first of them is answered with the chunks.
  const again = { after: null, channel: 8, resent: true };
  t.is(chunksFor(state, job, kept, again).chunks.length, 2);
  t.is(acknowledgedBy(job, again), 0);
});

test('the position of a read shows what arrived', (t) => {
  t.is(acknowledgedBy(job, { after: { token: 1, next: 1, exact: false } }), 1);
  t.is(acknowledgedBy(job, { after: { token: 1, next: 1, exact: true } }), 1);
  t.is(acknowledgedBy(job, { after: { token: 2, next: 1, exact: false } }), 0, 'that of another attempt shows nothing');
});
