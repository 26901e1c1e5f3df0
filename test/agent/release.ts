/** A release as a scheduler tells an agent of it. */
import { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';

export function releaseOf(values: Partial<ReleaseSpec> = {}): ReleaseSpec {
  return {
    ...ReleaseSpec.fromPartial({
      releaseId: 'r1',
      endpointId: 'ep1',
      endpointName: 'test',
      kind: 'ENDPOINT_KIND_QUEUE',
      runtime: 'thread',
      maxConcurrency: 1,
      startTimeoutMs: 20_000,
    }),
    ...values,
  };
}
