/** The start of a first worker, in the schema. */
import { StartPhase, type StartWorkerResponse } from '../../proto/gen/capstan/v1/control.ts';
import type * as Schema from './gen/schema.ts';
import { knownName, orNull } from './message-values.ts';

export const WORKER_START_TYPES = /* GraphQL */ `
type WorkerStart {
  phase: StartPhase!
  "For users: what it waits for, or what its node does."
  detail: String
  worker: ID
  "Name of its node."
  node: String
  release: ID!
  "Consecutive failed starts of the release."
  failures: Int!
  lastError: String
}
enum StartPhase {
  "workersMax is 0."
  PAUSED
  "No node has a place for it at present."
  PLACING
  "No connected node can run it."
  NO_NODE
  "Its node fetches the build or the image."
  PREPARING
  STARTING
  READY
  "Its starts fail, one after the other."
  CRASH_LOOP
}
`;

/** A phase that only a newer scheduler knows is a start, too. */
export function workerStartShape({
  phase,
  detail,
  workerId,
  node,
  releaseId,
  failures,
  lastError,
}: StartWorkerResponse): Schema.WorkerStart {
  return {
    phase: knownName(StartPhase, phase) ?? 'STARTING',
    detail: orNull(detail),
    worker: orNull(workerId),
    node: orNull(node),
    release: releaseId,
    failures,
    lastError: orNull(lastError),
  };
}
