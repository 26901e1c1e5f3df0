/** What a node reports of itself never hides the other nodes from their operator. */
import test from 'ava';
import { graphqlSync } from 'graphql';

import { nodeFigures } from '../../gateway/graphql/node-figures.ts';
import { schema } from '../../gateway/graphql/schema.ts';
import { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';

test('numbers beyond those of GraphQL are none, and no error', (t) => {
  const most = 0xffff_ffff;
  const networkInterfaces = [{ name: 'eth0', mtu: most, speedMbps: most }];
  const hardware = { cpuCores: most, cpuSockets: most, networkInterfaces };
  const node = nodeFigures(NodeInfo.fromPartial({ id: 'n', name: 'n', inventory: { cpuCount: most, hardware } }));
  const source = '{ nodes { cpus hardware { cpuCores cpuSockets networkInterfaces { mtu speedMbps } } } }';
  const { data, errors } = graphqlSync({ schema, source, rootValue: { nodes: [node] } });
  t.is(errors, undefined);
  t.deepEqual(JSON.parse(JSON.stringify(data)), {
    nodes: [{ cpus: 2_147_483_647, hardware: { cpuCores: null, cpuSockets: null, networkInterfaces: [{ mtu: null, speedMbps: null }] } }],
  });
});
