/** Waiting requests: for a job's end, for its next chunk, or for a row being read. No polling. */
import type { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';
import { toPayloadMessage, type Payload } from '../../../lib/payload.ts';
import { jobNotFound } from '../../../lib/job-errors.ts';
import { resultExpired } from './errors.ts';
import type { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';

import type { StepContext } from '../context.ts';
import type { Write } from '../effects.ts';
import type { Ref } from '../events.ts';
import type { Cursor, Waiter } from '../state/jobs.ts';
import type { State } from '../state.ts';
import type { Usage } from '../state/rate-limits.ts';
import { failureReply, jobReply } from './views.ts';

/** A request and what it waits for. */
export interface Waiting {
  readonly ref: Ref;
  readonly endpoint: string;
  readonly job: string;
  readonly mode: 'job' | 'stream';
  /** 0: waits only for the read that the caller starts. */
  readonly waitMs: number;
  readonly usage: Usage | null;
  readonly after?: Cursor | null;
  readonly resent?: boolean;
  readonly byKey?: boolean;
  readonly isUnconfirmed?: boolean;
}

export function addWaiter({ state, now }: StepContext, waiting: Waiting): Waiter {
  const { ref, endpoint, job, mode, waitMs, usage, after = null, resent = false, byKey = false, isUnconfirmed = false } = waiting;
  const waiter: Waiter = {
    channel: ref.channel,
    request: ref.request,
    endpoint,
    job,
    mode,
    after,
    resent,
    byKey,
    deadline: null,
    usage,
    isUnconfirmed,
    immediate: waitMs <= 0,
    done: false,
  };
  if (waitMs > 0) waiter.deadline = state.deadlines.add(now.mono + waitMs, { kind: 'waiter', waiter });
  const list = state.waiters.get(job);
  if (list === undefined) state.waiters.set(job, [waiter]);
  else list.push(waiter);
  let channel = state.channels.get(ref.channel);
  if (channel === undefined) {
    channel = new Map<number, Waiter>();
    state.channels.set(ref.channel, channel);
  }
  channel.set(ref.request, waiter);
  return waiter;
}

/** Deletes a waiter that gets no reply. Its request is no longer open. */
export function abandonWaiter(state: State, waiter: Waiter): void {
  if (waiter.done) return;
  if (waiter.usage !== null) waiter.usage.release();
  dropWaiter(state, waiter);
}

export function dropWaiter(state: State, waiter: Waiter): void {
  if (waiter.done) return;
  waiter.done = true;
  if (waiter.deadline !== null) state.deadlines.drop(waiter.deadline);
  const ids = { job: waiter.job, channel: waiter.channel, request: waiter.request };
  const list = present(state.waiters.get(waiter.job), 'a waiter is listed with its job', ids);
  const at = list.indexOf(waiter);
  invariant(at >= 0, 'a waiter is listed once with its job', ids);
  if (list.length === 1) state.waiters.delete(waiter.job);
  else list.splice(at, 1);
  // A gateway that gives two open requests one number has one entry for both.
  const channel = state.channels.get(waiter.channel);
  channel?.delete(waiter.request);
  if (channel?.size === 0) state.channels.delete(waiter.channel);
}

export function findWaiter(state: State, ref: Ref): Waiter | null {
  return state.channels.get(ref.channel)?.get(ref.request) ?? null;
}

/** Deletes every waiter of a channel that closed. Whether its last replies arrived is unknown. */
export function dropChannel(state: State, channel: number): void {
  for (const [job, handed] of state.handed) if (handed.channel === channel) state.handed.delete(job);
  // A channel without open requests has no entry.
  for (const waiter of [...(state.channels.get(channel)?.values() ?? [])]) abandonWaiter(state, waiter);
}

/** Replies to a waiter with a job. */
export function answerJob(ctx: StepContext, waiter: Waiter, job: Job, write: Write | null = null): void {
  dropWaiter(ctx.state, waiter);
  ctx.emit({ kind: 'reply', channel: waiter.channel, reply: jobReply(waiter.request, job), usage: waiter.usage }, write);
}

/** A reply to a reader of a stream. */
export interface StreamAnswer {
  readonly state: JobState;
  readonly chunks: readonly Payload[];
  /** Null unless the job failed. */
  readonly error: string | null;
  /** The attempt of the stream, and the index of its first chunk, if known. */
  readonly token?: number;
  readonly firstIndex?: number;
}

/** Replies to a waiter with stream chunks. */
export function answerStream(ctx: StepContext, waiter: Waiter, answer: StreamAnswer, write: Write | null = null): void {
  dropWaiter(ctx.state, waiter);
  const { state, chunks, error, ...place } = answer;
  const value = { state, chunks: chunks.map(toPayloadMessage), ...(error === null ? {} : { error }), ...place };
  const reply = { requestId: waiter.request, result: { $case: 'stream', value } } as const;
  ctx.emit({ kind: 'reply', channel: waiter.channel, reply, usage: waiter.usage }, write);
}

/** Replies to a waiter with an error. */
export function answerFailure(ctx: StepContext, waiter: Waiter, error: CapstanError, write: Write | null = null): void {
  dropWaiter(ctx.state, waiter);
  ctx.emit({ kind: 'reply', channel: waiter.channel, reply: failureReply(waiter.request, error), usage: waiter.usage }, write);
}

/** Tells the waiters of a job that it does not exist (any more). */
export function replyNotFound(ctx: StepContext, job: string, write: Write | null): void {
  for (const waiter of [...(ctx.state.waiters.get(job) ?? [])]) answerFailure(ctx, waiter, gone(waiter), write);
}

/** Returns why a waiter cannot get the job. */
export function gone({ job, byKey }: Waiter): CapstanError {
  return byKey ? resultExpired(job) : jobNotFound(job);
}
