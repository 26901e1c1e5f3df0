/** The overview shows the hosts with problems first. */
import test from 'ava';

import { problemsFirst, toneOf } from '../../console/src/pages/host-order.ts';

function host(name: string, of: { connected?: boolean; draining?: boolean; healthy?: readonly boolean[] } = {}) {
  const { connected = true, draining = false, healthy = [] } = of;
  return { name, connected, draining, devices: healthy.map((each) => ({ healthy: each })) };
}

test('a host that is gone comes before one with an unhealthy GPU, one that is drained, and those that are well', (t) => {
  const hosts = [
    host('z'),
    host('d', { draining: true }),
    host('a', { healthy: [true] }),
    host('u', { draining: true, healthy: [true, false] }),
    host('g', { connected: false, healthy: [true] }),
  ];
  t.deepEqual(
    problemsFirst(hosts).map((each) => [each.name, toneOf(each)]),
    [
      ['g', 'critical'],
      ['u', 'critical'],
      ['d', 'warn'],
      ['a', ''],
      ['z', ''],
    ],
  );
});
