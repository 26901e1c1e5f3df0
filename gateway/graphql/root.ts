/**
 * The root fields. Each but `cluster` is one call of ControlService with the caller's own key, so that the scheduler
 * checks its scope; lists of an operator are one call for each cell.
 */
import type { EndpointInfo, GetEndpointResponse } from '../../proto/gen/capstan/v1/control.ts';
import { auditFields } from './audit-fields.ts';
import type { ControlCalls } from './control-calls.ts';
import { accountFields } from './account-fields.ts';
import { alertFields } from './alert-fields.ts';
import { endpointFields } from './endpoint-fields.ts';
import type { Fields } from './fields.ts';
import type { Endpoint, Root } from './gen/schema.ts';
import { jobFields } from './job-fields.ts';
import { nodeFields } from './node-fields.ts';
import { secretFields } from './secret-fields.ts';
import { endpointShape, type Addresses } from './shapes.ts';

export interface RootDeps extends Pick<Fields, 'calls' | 'contentsOf' | 'isOperator' | 'draining' | 'cluster'> {
  readonly addresses: Addresses;
}

/** The resolvers of Query and Mutation for one request. */
export function rootFor({ addresses, ...deps }: RootDeps): Root {
  const read = new Map<string, Promise<EndpointInfo[]>>();
  const { calls } = deps;
  const changes = calls.changing;
  const call: ControlCalls['own'] = (method, request) => calls.own(method, request);
  const change: ControlCalls['own'] = (method, request) => changes.own(method, request);
  const shape = (info: EndpointInfo): Endpoint => {
    let detail: Promise<GetEndpointResponse> | undefined;
    return endpointShape(info, addresses, () => (detail ??= call((control) => control.getEndpoint, { endpointId: info.id })));
  };
  const endpointsOf = (environment: string): Promise<EndpointInfo[]> => {
    const known = read.get(environment);
    if (known !== undefined) return known;
    const requested = call((control) => control.listEndpoints, { environment }).then(({ endpoints }) => endpoints);
    read.set(environment, requested);
    return requested;
  };
  const fields: Fields = { ...deps, changes, call, change, shape, endpointsOf };
  return {
    ...endpointFields(fields),
    ...jobFields(fields),
    ...nodeFields(fields),
    ...accountFields(fields),
    ...secretFields(fields),
    ...alertFields(fields),
    ...auditFields(fields),
  };
}
