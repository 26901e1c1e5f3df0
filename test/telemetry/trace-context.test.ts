/** W3C trace contexts as texts. */
import test from 'ava';
import { fc, testProp } from '@fast-check/ava';

import {
  checkedTrace,
  isUnsampled,
  MAX_TRACE,
  sampledTraceId,
  traceBelow,
  traceHeaders,
  traceOf,
  traceParent,
} from '../../lib/trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const HEADER = `00-${TRACE}-${PARENT}-01`;

test('a context is read from its headers and written to them again', (t) => {
  t.is(traceOf(HEADER), HEADER);
  t.deepEqual(traceHeaders(HEADER), { traceparent: HEADER });
  const both = traceOf(HEADER, 'a=1,b=2');
  t.deepEqual(traceHeaders(both), { traceparent: HEADER, tracestate: 'a=1,b=2' });
  t.deepEqual(traceParent(both), { traceId: TRACE, spanId: PARENT, flags: 1 });
  t.is(checkedTrace(both), both);
  t.is(traceOf(HEADER, ['a=1', 'b=2']), `${HEADER} a=1,b=2`, 'several headers are one list');
});

for (const [what, header] of [
  ['nothing', undefined],
  ['an empty text', ''],
  ['a list', [HEADER]],
  ['upper case', HEADER.toUpperCase()],
  ['no trace', `00-${'0'.repeat(32)}-${PARENT}-01`],
  ['no span', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['the forbidden version', `ff-${TRACE}-${PARENT}-01`],
  ['more than version 00 allows', `${HEADER}-more`],
  ['two headers', `${HEADER}, ${HEADER}`],
  ['a line end', `${HEADER}\n`],
  ['megabytes', `01-${TRACE}-${PARENT}-01-${'a'.repeat(1_000_000)}`],
] as const)
  test(`a traceparent with ${what} is none`, (t) => {
    t.is(traceOf(header, 'a=1'), '');
  });

test('a later version is passed on as the present one', (t) => {
  t.is(traceOf(`01-${TRACE}-${PARENT}-01-more`), HEADER);
});

test('a tracestate that breaks a rule is left out', (t) => {
  for (const state of ['', 'no value', 'a=1\r\nx: y', `a=${'b'.repeat(600)}`, 'ä=1', 5])
    t.is(traceOf(HEADER, state), HEADER, String(state));
});

test('the context below a span keeps what vendors added, within the same trace', (t) => {
  const below = { traceId: TRACE, spanId: 'b7ad6b7169203331', flags: 0 };
  t.is(traceBelow(`${HEADER} a=1`, below), `00-${TRACE}-b7ad6b7169203331-00 a=1`);
  t.is(traceBelow('', below), `00-${TRACE}-b7ad6b7169203331-00`);
  t.is(traceBelow(`${HEADER} a=1`, { ...below, traceId: 'f'.repeat(32) }), `00-${'f'.repeat(32)}-b7ad6b7169203331-00`);
});

test('only recorded traces are linked', (t) => {
  t.is(sampledTraceId(HEADER), TRACE);
  t.is(sampledTraceId(`00-${TRACE}-${PARENT}-00`), undefined);
  t.is(sampledTraceId(''), undefined);
  t.deepEqual([`${HEADER} a=0`, `00-${TRACE}-${PARENT}-02 a=1`, `00-${TRACE}-${PARENT}-00`, ''].map(isUnsampled), [
    false,
    true,
    true,
    false,
  ]);
});

testProp('whatever the headers are, a context is empty or valid, and short', [fc.string(), fc.string()], (t, traceparent, tracestate) => {
  for (const text of [
    traceOf(traceparent, tracestate),
    traceOf(HEADER, tracestate),
    checkedTrace(traceparent),
    checkedTrace(`${HEADER} ${tracestate}`),
  ]) {
    t.true(text.length <= MAX_TRACE);
    t.is(checkedTrace(text), text);
  }
});
