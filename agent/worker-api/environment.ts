/** The environment variables by which a foreign worker finds the agent. */

export interface Caller {
  readonly workerId: string;
  readonly endpointId: string;
  readonly token: string;
  readonly deviceUuids: readonly string[];
  /** Ping interval, ms; clients use whole seconds. */
  readonly pingMs: number;
}

/**
 * `base`: the API's address as the worker sees it, `http://host:port`. Clients append `&…`: each URL already has its
 * `?`.
 */
export function workerVariables(base: string, { workerId, endpointId, token, deviceUuids, pingMs }: Caller): Record<string, string> {
  const root = `${base}/v2/${encodeURIComponent(endpointId)}`;
  const query = `?gpu=${encodeURIComponent(deviceUuids.length === 0 ? 'none' : deviceUuids.join(','))}`;
  return {
    RUNPOD_WEBHOOK_GET_JOB: `${root}/job-take/$ID${query}`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${root}/job-done/$RUNPOD_POD_ID/$ID${query}`,
    RUNPOD_WEBHOOK_POST_STREAM: `${root}/job-stream/$RUNPOD_POD_ID/$ID${query}`,
    RUNPOD_WEBHOOK_PING: `${root}/ping/$RUNPOD_POD_ID${query}`,
    RUNPOD_PING_INTERVAL: String(pingMs),
    RUNPOD_POD_ID: workerId,
    RUNPOD_ENDPOINT_ID: endpointId,
    RUNPOD_AI_API_KEY: token,
  };
}
