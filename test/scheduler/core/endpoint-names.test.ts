/** A URL holds an id or a name: what has the form of an id is refused as the name of a new endpoint. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { ENDPOINT_ID } from '../../../lib/endpoint-names.ts';
import { endpointNameKey } from '../../../scheduler/core/state/endpoints.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

test('every new id has the form that names may not have', (t) => {
  const world = new FleetWorld();
  for (let n = 0; n < 200; n += 1) for (const id of world.deploy(queueInput(`e${n}`, { workersMax: 0 }))) t.regex(id, ENDPOINT_ID);
});

test('a name of the form of an id is refused, and so is the id of an endpoint of the account', (t) => {
  const world = new FleetWorld();
  const [id = ''] = world.deploy(queueInput('echo', {}));
  for (const name of [id, 'a1b2c3d4e5f6g7']) {
    const refused = t.throws(() => world.deploy(queueInput('fine', {}), queueInput(name, {})), { instanceOf: CapstanError });
    t.is(refused.code, 'INVALID_ARGUMENT');
    t.is(refused.field, 'endpoints.name');
    t.true(refused.message.includes(JSON.stringify(name)), refused.message);
  }
  t.is(world.image.endpoints.size, 1, 'nothing of the deployment was created');
  for (const name of ['imageprocessor', 'a1b2c3d4e5f6g', 'a1b2c3d4e5f6g7h', '1a2b3c4d5e6f7g', 'A1b2c3d4e5f6g7', 'a1b2c3-4e5f6g7'])
    t.notThrows(() => world.deploy(queueInput(name, { workersMax: 0 })), name);
});

test('an endpoint of an earlier version that has such a name is still deployed', (t) => {
  const world = new FleetWorld();
  const [id = ''] = world.deploy(queueInput('echo', {}));
  const record = world.image.endpoints.get(id);
  if (record === undefined) throw new Error('not deployed');
  record.config = { ...record.config, name: 'a1b2c3d4e5f6g7' };
  world.image.endpointsByName.set(endpointNameKey('acc', 'default', 'a1b2c3d4e5f6g7'), id);
  t.deepEqual(world.deploy(queueInput('a1b2c3d4e5f6g7', { workersMax: 2 })), [id]);
});
