/** A worker's line as a log record of OpenTelemetry. */
import { resourceFromAttributes } from '@opentelemetry/resources';
import test from 'ava';

import { exportFailure } from '../../lib/telemetry/export-failure.ts';
import { recordOf, type TraceContext } from '../../agent/logs/forwarding/log-record.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';

const ORIGIN = { resource: resourceFromAttributes({}), instrumentationScope: { name: 'capstan.worker' } };
const TRACE: TraceContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isSampled: true };

function line(values: Partial<LogLine> = {}): LogLine {
  return {
    ...{ endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: 'j1', attempt: 2, stream: 'stderr', level: 'warn', text: 'hot' },
    ...{ fields: '', atUs: 1_700_000_000_123_456n, atMs: 1_700_000_000_123n },
    ...values,
  };
}

test('a record has the text, the level, the time to the microsecond, and who printed it', (t) => {
  const record = recordOf({ line: line(), endpointName: 'hello' }, ORIGIN);
  t.is(record.body, 'hot');
  t.deepEqual(record.hrTime, [1_700_000_000, 123_456_000]);
  t.is(record.severityText, 'warn');
  t.is(record.severityNumber, 13);
  t.is(record.spanContext, undefined);
  t.deepEqual(record.attributes, {
    'capstan.endpoint.id': 'ep1',
    'capstan.endpoint.name': 'hello',
    'capstan.job.id': 'j1',
    'capstan.attempt': 2,
    'capstan.worker.id': 'w1',
    'capstan.release': 'r1',
    'log.iostream': 'stderr',
  });
});

test('what is not known is left out', (t) => {
  const record = recordOf(
    { line: line({ jobId: '', attempt: 0, workerId: '', releaseId: '', level: '', stream: 'system' }), endpointName: '' },
    ORIGIN,
  );
  t.deepEqual(record.attributes, { 'capstan.endpoint.id': 'ep1', 'log.iostream': 'system' });
  t.is(record.severityNumber, undefined);
  t.is(record.severityText, undefined);
});

test('fields of a JSON line are attributes under their own names, and replace none of the agent', (t) => {
  const fields = JSON.stringify({ user: 'ada', tries: 3, ok: false, at: { x: [1] }, none: null, 'capstan.job.id': 'forged', '': 'x' });
  const { attributes, droppedAttributesCount } = recordOf({ line: line({ fields }), endpointName: '' }, ORIGIN);
  t.like(attributes, { user: 'ada', tries: 3, ok: false, at: '{"x":[1]}', none: 'null', 'capstan.job.id': 'j1' });
  t.is(droppedAttributesCount, 1);
});

test('fields are bounded: their number, their names and their values', (t) => {
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`field${at}`, at]));
  const fields = JSON.stringify({ ['k'.repeat(200)]: 1, long: 'v'.repeat(10_000), ...many });
  const { attributes, droppedAttributesCount } = recordOf({ line: line({ fields }), endpointName: '' }, ORIGIN);
  t.is(Object.keys(attributes).length, 64 + 6);
  t.is(attributes['long'], 'v'.repeat(4_096));
  t.is(droppedAttributesCount, 38);
});

test('text that is no valid Unicode is made valid: a receiver would refuse the whole batch', (t) => {
  const fields = `{"a\\ud800":"b\\udfff","__proto__":"c"}`;
  const { body, attributes } = recordOf({ line: line({ text: 'x\ud800', fields }), endpointName: '' }, ORIGIN);
  t.is(body, 'x\ufffd');
  t.is(attributes['a\ufffd'], 'b\ufffd');
  t.is(Object.getOwnPropertyDescriptor(attributes, '__proto__')?.value, 'c');
});

test('a trace context becomes the record’s, an invalid one is left out', (t) => {
  const spanOf = (trace: Partial<TraceContext>): unknown =>
    recordOf({ line: line(), endpointName: '', trace: { ...TRACE, ...trace } }, ORIGIN).spanContext;
  t.deepEqual(spanOf({}), { traceId: TRACE.traceId, spanId: TRACE.spanId, traceFlags: 1 });
  t.like(spanOf({ isSampled: false }), { traceFlags: 0 });
  t.is(spanOf({ traceId: '0'.repeat(32) }), undefined);
  t.is(spanOf({ spanId: 'B7AD6B7169203331' }), undefined);
  t.is(spanOf({ spanId: '' }), undefined);
});

test('a reason is a code, never what the receiver or a library wrote', (t) => {
  t.is(exportFailure(Object.assign(new Error('secret'), { code: 503, data: 'secret' }), false), 'HTTP status 503');
  t.is(exportFailure(Object.assign(new Error('secret'), { code: 14 }), true), 'gRPC status 14');
  t.is(exportFailure(Object.assign(new Error('secret'), { code: 'ECONNREFUSED' }), true), 'ECONNREFUSED');
  t.is(exportFailure(Object.assign(new Error('secret'), { code: 'it is secret' }), true), 'the receiver did not accept them');
  t.is(exportFailure(undefined, true), 'the receiver did not accept them');
});
