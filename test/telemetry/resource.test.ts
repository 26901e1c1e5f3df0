/** The attributes of OpenTelemetry's resource: a part's own, and those of the standard variables. */
import test from 'ava';

import { resourceAttributes } from '../../lib/telemetry/resource.ts';

const SOURCE = { part: 'agent', version: '1.2.3', instanceId: 'node-1', hostName: 'gpu-1' };

test('a part names itself, its version, its instance and its host', (t) => {
  t.deepEqual(resourceAttributes(SOURCE, {}), {
    'service.name': 'capstan-agent',
    'service.version': '1.2.3',
    'service.instance.id': 'node-1',
    'host.name': 'gpu-1',
  });
});

test('the standard variables override what a part says of itself', (t) => {
  const env = { OTEL_RESOURCE_ATTRIBUTES: 'service.name=other, host.name=rack%2C3 ,deployment.environment.name=prod%3D1,' };
  t.like(resourceAttributes(SOURCE, env), {
    'service.name': 'other',
    'service.version': '1.2.3',
    'host.name': 'rack,3',
    'deployment.environment.name': 'prod=1',
  });
  t.is(resourceAttributes(SOURCE, { ...env, OTEL_SERVICE_NAME: 'mine' })['service.name'], 'mine');
});

for (const text of ['secret', 'secret=a=b', '=secret', 'secret=%zz']) {
  test(`attributes that are no pairs are refused by the name of the variable, without their value: ${text}`, (t) => {
    const error = t.throws(() => resourceAttributes(SOURCE, { OTEL_RESOURCE_ATTRIBUTES: text }), {
      code: 'CONFIG',
      message: /^OTEL_RESOURCE_ATTRIBUTES: must be key=value pairs/,
    });
    t.notRegex(error?.message ?? '', /secret/);
  });
}
