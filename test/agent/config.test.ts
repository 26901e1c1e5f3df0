/** The agent's configuration: defaults, environment, what it refuses. */
import test from 'ava';

import { agentConfig, readConfig, readJoinToken } from '../../agent/config.ts';
import { CapstanError } from '../../lib/errors.ts';

test('defaults', (t) => {
  const config = readConfig({}, { PATH: '/bin' });
  t.is(config.scheduler, '127.0.0.1:7070');
  t.is(config.logLevel, 'info');
  t.is(config.nvidiaSmi, 'nvidia-smi');
  t.is(config.cacheBytes, 20_000_000_000);
  t.is(config.spareHosts, 1);
  t.is(config.drainMs, 10_000);
  t.is(config.joinToken, undefined);
  t.true(Object.isFrozen(config));
});

test('the environment sets, flags go before it', (t) => {
  const env = { CAPSTAN_SCHEDULER: 'scheduler:7070', CAPSTAN_DRAIN_MS: '5', CAPSTAN_NODE_NAME: 'gpu-1', CAPSTAN_JOIN_TOKEN: 'secret' };
  const config = readConfig({ nodeName: 'gpu-2' }, env);
  t.is(config.scheduler, 'scheduler:7070');
  t.is(config.drainMs, 5);
  t.is(config.nodeName, 'gpu-2');
  t.is(readJoinToken(config), 'secret');
});

test('hosts inherit a few names and no secret', (t) => {
  const env = {
    PATH: '/bin',
    HOME: '/home/u',
    CAPSTAN_JOIN_TOKEN: 'secret',
    SERVICE_API_KEY: 'key',
    AWS_SECRET_ACCESS_KEY: 'other',
    TZ: 'UTC',
    NODE_EXTRA_CA_CERTS: '/etc/ca.crt',
  };
  const { hostEnv } = readConfig({}, env);
  t.is(hostEnv['PATH'], '/bin');
  t.is(hostEnv['TZ'], 'UTC');
  t.is(hostEnv['NODE_EXTRA_CA_CERTS'], '/etc/ca.crt');
  t.false(JSON.stringify(hostEnv).match(/secret|key|other/) !== null);
});

test('a wrong value is refused by name', (t) => {
  const error = t.throws(() => readConfig({}, { CAPSTAN_DRAIN_MS: 'soon' }), { instanceOf: CapstanError });
  t.is(error?.code, 'CONFIG');
  t.is(error?.field, 'CAPSTAN_DRAIN_MS');
  t.throws(() => readConfig({}, { CAPSTAN_LOG_LEVEL: 'loud' }), { message: /^CAPSTAN_LOG_LEVEL: / });
});

test('a join token file that is not there is told by name', (t) => {
  const config = readConfig({ joinTokenFile: '/nonexistent/join-token' }, {});
  t.throws(() => readJoinToken(config), { message: /\/nonexistent\/join-token/ });
});

test('every setting says what it is', (t) => {
  for (const [name, schema] of Object.entries(agentConfig.shape)) t.truthy(schema.description, name);
});
