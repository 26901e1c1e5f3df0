/** Limits of the gRPC server for each kind of caller: open calls, and the size of messages. */
import type { Metadata } from '@grpc/grpc-js';

import type { Caller } from '../../lib/grpc-admission.ts';
import { ownsAccount } from '../core/control/keys.ts';
import type { Authorizer } from './auth.ts';

const KIB = 1024;

/** Identifies a caller by its metadata; throws as {@link Authorizer.identify}. */
export function callerOf(auth: Authorizer, metadata: Metadata): Caller {
  const principal = auth.identify(metadata);
  switch (principal.role) {
    case 'gateway':
      return { name: 'gateway', calls: Infinity, messageBytes: Infinity };
    case 'node':
      return { name: `node ${principal.node}`, calls: 512, messageBytes: Infinity };
    case 'account': {
      // Keys that deploy send manifests; other keys send ids and filters.
      const messageBytes = ownsAccount(principal.scope) ? Infinity : 64 * KIB;
      return { name: `account ${principal.account} ${principal.scope}`, calls: 64, messageBytes };
    }
  }
}
