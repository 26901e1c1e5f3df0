/** Environment of a worker with what its code needs to call other endpoints. */
import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';

interface Api {
  /** Base URL of the HTTP API as workers on this node reach it. */
  readonly url: string;
  /** Secret of the worker. */
  readonly token: string;
}

export function callVariables({ endpointId, endpointName, environment }: ReleaseSpec, { url, token }: Api): Record<string, string> {
  return {
    CAPSTAN_URL: url,
    CAPSTAN_WORKER_TOKEN: token,
    CAPSTAN_ENVIRONMENT: environment,
    CAPSTAN_ENDPOINT_ID: endpointId,
    CAPSTAN_ENDPOINT_NAME: endpointName,
  };
}
