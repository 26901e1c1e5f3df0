/** The tool against gateways of other versions: an unknown name is explained by the versions. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import test, { type ExecutionContext } from 'ava';

import { LIST_NODES } from '../../client/graphql/gen/operations.ts';
import { connectGateway } from '../../client/gateway-client.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { toolVersion } from '../../terminal/version.ts';

/** Starts a gateway of `version` that refuses every query with `message`. */
async function gateway(t: ExecutionContext, version: string | undefined, message: string): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json');
    if (request.url === '/graphql') {
      response.statusCode = 400;
      response.end(JSON.stringify({ errors: [{ message, extensions: { code: 'INVALID_ARGUMENT' } }] }));
    } else response.end(JSON.stringify({ name: 'capstan', version }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const FIELD = 'Cannot query field "isolation" on type "Node".';
const MESSAGES = [
  FIELD,
  'Unknown argument "cell" on field "Query.nodes".',
  'Unknown type "LogInput".',
  'Variable "$patch" got invalid value { network: "none" }; Field "network" is not defined by type "EndpointPatch".',
  'Value "OPERATOR" does not exist in "Scope" enum.',
];

for (const message of MESSAGES)
  test(`an older gateway: ${message}`, async (t) => {
    const address = await gateway(t, '0.0.1', message);
    const error = await t.throwsAsync(connectGateway(address, 'key').query(LIST_NODES, {}), { instanceOf: ToolError });
    t.is(
      error.message,
      `the gateway at ${address} (version 0.0.1) does not support this command of the tool (version ${toolVersion()}): ${message}`,
    );
    t.regex(error.hint, /^Upgrade the service to .* capstan version --check$/);
    t.is(error.code, 'INVALID_ARGUMENT', 'callers that can do without the name query again');
  });

test('a newer gateway, one of the same version, and one that states none', async (t) => {
  const hintOf = async (version: string | undefined): Promise<string | undefined> => {
    const address = await gateway(t, version, FIELD);
    return (await t.throwsAsync(connectGateway(address, 'key').query(LIST_NODES, {}), { instanceOf: ToolError })).hint;
  };
  t.regex((await hintOf('999.0.0')) ?? '', /Upgrade the tool/);
  t.regex((await hintOf(toolVersion())) ?? '', /different builds/);
  t.regex((await hintOf(undefined)) ?? '', /^Upgrade the service/);
});

test('other refusals stay as they are', async (t) => {
  const address = await gateway(t, '0.0.1', 'name: must be shorter');
  const error = await t.throwsAsync(connectGateway(address, 'key').query(LIST_NODES, {}));
  t.is(error?.message, 'name: must be shorter');
});
