/** A tool of this version deploys through gateways of earlier ones. */
import test from 'ava';

import { callDeploy, type DeployCall } from '../../cli/api/deploy-call.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { CapstanError } from '../../lib/errors.ts';

const parameter = { name: 'description', required: true, type: 'string' };
const call: DeployCall = {
  environment: 'production',
  build: 'b',
  source: { commit: 'c0ffee', message: 'm', isDirty: false },
  keep: [],
  endpoints: [
    {
      name: 'e',
      env: { description: 'of a variable', defaultValue: '1' },
      functions: [
        { name: 'f', module: 'm.py', description: 'Says so.', parameters: [{ ...parameter, defaultValue: '"x"' }] },
        { name: 'K', classSpec: { methods: [{ name: 'm', parameters: [{ ...parameter, defaultValue: '2' }] }] } },
      ],
    },
    { name: 'without functions' },
  ],
};

/** A gateway that refuses one thing after the other, in its own words. */
function refusing(...refusals: string[]): { readonly client: Pick<GatewayClient, 'query'>; readonly sent: DeployCall[] } {
  const sent: DeployCall[] = [];
  const query = (_operation: unknown, variables: DeployCall): Promise<unknown> => {
    sent.push(variables);
    const refusal = refusals.shift();
    return refusal === undefined ? Promise.resolve({ deploy: {} }) : Promise.reject(new CapstanError('INVALID_ARGUMENT', refusal));
  };
  return { client: { query } as unknown as Pick<GatewayClient, 'query'>, sent };
}

test('what a gateway does not know is left out, and nothing else', async (t) => {
  const { client, sent } = refusing(
    'Unknown type "SourceRevisionInput".',
    'Variable "$endpoints" has invalid value at [0]: Expected value of type "EndpointSpec", but encountered error "endpoints.functions[0]: has no field "description"; the fields are name, module"',
  );
  await callDeploy(client, call);
  t.is(sent.length, 3);
  t.false('source' in (sent[1] ?? {}));
  t.deepEqual(sent[1]?.endpoints, call.endpoints);
  t.deepEqual(sent[2]?.endpoints, [
    {
      name: 'e',
      env: { description: 'of a variable', defaultValue: '1' },
      functions: [
        { name: 'f', module: 'm.py', parameters: [parameter] },
        { name: 'K', classSpec: { methods: [{ name: 'm', parameters: [parameter] }] } },
      ],
    },
    { name: 'without functions' },
  ]);
});

test('other refusals are the caller’s, and none is tried for ever', async (t) => {
  const other = refusing('endpoints.functions[0]: has no field "colour"');
  await t.throwsAsync(callDeploy(other.client, call), { message: /colour/ });
  t.is(other.sent.length, 1);
  const stubborn = refusing(...Array.from({ length: 9 }, () => 'functions[0]: has no field "description"'));
  await t.throwsAsync(callDeploy(stubborn.client, call), { message: /description/ });
  t.is(stubborn.sent.length, 2);
});
