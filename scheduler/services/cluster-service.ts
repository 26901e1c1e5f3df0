/**
 * Lists cells and schedulers, and reads metrics, from any scheduler. It authenticates by the gateway token, which is the same file for all of
 * them: a standby has no keys to compare with.
 */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import type { Caller, MethodRules } from '../../lib/grpc-admission.ts';
import type { ClusterServiceServer } from '../../proto/gen/capstan/v1/cluster.ts';
import type { ClusterView } from '../cluster/cluster.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { GatewayToken } from '../secrets/gateway-token.ts';
import { sameSecret } from '../secrets/hash.ts';
import { bearer } from './auth.ts';
import { unary } from './calls.ts';

const KIB = 1024;
/** Concurrent calls: each asks the database. */
const CALLS = 64;

export function clusterService(
  cluster: ClusterView,
  metrics: { readonly text: (format: 'prometheus') => Promise<string> },
  log: EngineLog,
): ClusterServiceServer {
  return {
    list: unary(log, 'List', () => cluster.list()),
    metrics: unary(log, 'Metrics', async () => ({ text: await metrics.text('prometheus') })),
  };
}

export function clusterServiceRules(gatewayToken: Pick<GatewayToken, 'value'>) {
  const identify = (metadata: Metadata): Caller => {
    if (!sameSecret(bearer(metadata), gatewayToken.value))
      throw new CapstanError('PERMISSION_DENIED', 'this call requires the gateway token');
    return { name: 'gateway at the cluster', calls: CALLS, messageBytes: KIB };
  };
  const rules = { identify, standby: true, messageBytes: KIB };
  return { list: rules, metrics: rules } satisfies Record<string, MethodRules>;
}
