/** Whether, where to and by which protocol a signal is exported, by OpenTelemetry's standard variables. */
import test from 'ava';

import { otlpExport, type Environment } from '../../lib/telemetry/otlp-protocol.ts';

const SHARED = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

test('nothing is exported until an endpoint is set', (t) => {
  t.is(otlpExport('TRACES', {}), undefined);
  t.is(otlpExport('LOGS', { OTEL_LOGS_EXPORTER: 'otlp', OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: ' ' }), undefined);
  t.deepEqual(otlpExport('TRACES', SHARED), { protocol: 'http/protobuf', receiver: 'collector:4318' });
});

test('log records need an endpoint of their own, or their exporter to be named', (t) => {
  t.is(otlpExport('LOGS', SHARED), undefined);
  t.deepEqual(otlpExport('LOGS', { ...SHARED, OTEL_LOGS_EXPORTER: 'otlp' }), { protocol: 'http/protobuf', receiver: 'collector:4318' });
  const own = { ...SHARED, OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'https://logs.example/v1/logs' };
  t.deepEqual(otlpExport('LOGS', own), { protocol: 'http/protobuf', receiver: 'logs.example' });
  t.deepEqual(otlpExport('TRACES', own), { protocol: 'http/protobuf', receiver: 'collector:4318' });
});

test('the signal’s own protocol overrides the common one', (t) => {
  const env = { ...SHARED, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json' };
  t.is(otlpExport('TRACES', env)?.protocol, 'http/json');
  t.is(otlpExport('LOGS', { ...env, OTEL_LOGS_EXPORTER: 'otlp' })?.protocol, 'grpc');
});

test('OTEL_SDK_DISABLED and the exporter none switch a signal off, whatever else is set', (t) => {
  t.is(otlpExport('TRACES', { ...SHARED, OTEL_SDK_DISABLED: 'TRUE', OTEL_EXPORTER_OTLP_PROTOCOL: 'fax' }), undefined);
  t.is(otlpExport('TRACES', { ...SHARED, OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_PROTOCOL: 'fax' }), undefined);
  t.truthy(otlpExport('TRACES', { ...SHARED, OTEL_SDK_DISABLED: 'false' }));
});

test('gRPC takes a host and port without a scheme', (t) => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
  t.deepEqual(otlpExport('TRACES', env), { protocol: 'grpc', receiver: 'collector:4317' });
});

test('the receiver is named without the credentials of its address', (t) => {
  t.is(
    otlpExport('TRACES', { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://user:secret@collector:4318/?token=secret' })?.receiver,
    'collector:4318',
  );
});

for (const [name, env] of [
  ['OTEL_EXPORTER_OTLP_PROTOCOL', { ...SHARED, OTEL_EXPORTER_OTLP_PROTOCOL: 'secret' }],
  ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', { ...SHARED, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'secret' }],
  ['OTEL_TRACES_EXPORTER', { ...SHARED, OTEL_TRACES_EXPORTER: 'secret' }],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'secret:4318' }],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'ftp://secret' }],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'secret here', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }],
] as const satisfies readonly (readonly [string, Environment])[]) {
  test(`${JSON.stringify(env)} is refused by the name of the variable, without its value`, (t) => {
    const error = t.throws(() => otlpExport('TRACES', env), { code: 'CONFIG' });
    t.true(error?.message.startsWith(`${name}: must be `), error?.message);
    t.notRegex(error?.message ?? '', /secret/);
  });
}
