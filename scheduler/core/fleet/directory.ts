/** The directory of keys and endpoints that gateways receive. */
import { EndpointKind } from '../../../proto/gen/capstan/v1/common.ts';
import { KeyScope, type DirectoryUpdate, type EndpointEntry, type KeyEntry } from '../../../proto/gen/capstan/v1/control.ts';

import { keyId } from '../../../lib/key-id.ts';
import type { State } from '../state.ts';
import type { KeyRow } from '../state/control-rows.ts';
import type { EndpointConfig } from '../state/endpoints.ts';
import { placementsOf } from './placement/placed-workers.ts';

/** Returns a gateway's view of an endpoint. */
export function endpointEntry(state: State, config: EndpointConfig): EndpointEntry {
  const functions = new Map((state.releases.get(config.release)?.functions ?? []).map((each) => [each.name, each]));
  return {
    id: config.id,
    name: config.name,
    accountId: config.account,
    environment: config.environment,
    kind: config.kind === 'QUEUE' ? EndpointKind.QUEUE : EndpointKind.LOAD_BALANCED,
    releaseId: config.release,
    routes: Object.entries(config.routes).map(([route, name]) => {
      const [method = '', path = ''] = route.split(' ');
      const fn = functions.get(name);
      return { method, path, ...(fn === undefined ? {} : { function: fn }) };
    }),
    isPublic: config.isPublic,
    description: config.description,
  };
}

/** Returns a gateway's view of a key. */
export function keyEntry(key: KeyRow): KeyEntry {
  const isOperator = key.scope === KeyScope.OPERATOR;
  return {
    hash: Buffer.from(key.hash, 'hex'),
    accountId: key.account,
    // Gateways of earlier versions do not know the scope OPERATOR and would refuse the key.
    scope: isOperator ? KeyScope.ALL : key.scope,
    endpointIds: [...key.endpoints],
    environment: key.environment,
    isOperator,
    isSession: key.sessionOf !== undefined,
    keyId: keyId(key.sessionOf ?? key.hash),
  };
}

/** Returns the whole directory, for a gateway that starts to watch. */
export function wholeDirectory(state: State): DirectoryUpdate {
  const live = [...state.endpoints.values()].filter(({ config }) => config.removing === undefined);
  return {
    ...emptyUpdate(),
    reset: true,
    keys: [...state.keys.values()].map(keyEntry),
    endpoints: live.map((endpoint) => endpointEntry(state, endpoint.config)),
    placements: [...state.nodes.values()].map((node) => placementsOf(state, node)).filter(({ workers }) => workers.length > 0),
  };
}

export function emptyUpdate(): DirectoryUpdate {
  return { reset: false, keys: [], endpoints: [], removedKeys: [], removedEndpoints: [], placements: [] };
}
