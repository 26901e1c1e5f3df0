/** The targets of effects: the open streams of gateways, agents and watchers. */
import type { DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Effect } from '../core/effects.ts';
import type { State } from '../core/state.ts';
import type { Payload } from '../../lib/payload.ts';

export type DispatchEffect = Extract<Effect, { kind: 'dispatch' }>;
export type WaitEndedEffect = Extract<Effect, { kind: 'wait-ended' }>;
export type DesiredEffect = Extract<Effect, { kind: 'send-desired' }>;

export interface Ports {
  reply(channel: number, reply: JobReply): void;
  send(node: string, session: number, event: SchedulerEvent): void;
  /** Sends a node the whole set of its workers, with the releases that they name. */
  sendDesired(effect: DesiredEffect, state: State): void;
  sendJob(effect: DispatchEffect, input: Payload, s3: Uint8Array | null): void;
  /** A job of a trace ended in the queue, for its span. */
  waitEnded(effect: WaitEndedEffect): void;
  closeSession(node: string, session: number, reason: string): void;
  /** A worker became ready, for metrics. */
  workerStarted(start: Extract<Effect, { kind: 'worker-started' }>): void;
  directory(update: DirectoryUpdate): void;
  /** Deletes the blobs among these that no row names. */
  dropBodies(blobs: readonly string[]): void;
  /** Tries to deliver a webhook, and feeds the engine `delivery-tried`. */
  deliver(id: string): void;
  /** Ends every stream so that the other sides send again: the state is lost. */
  closeAll(reason: string): void;
}
