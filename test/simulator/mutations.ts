/** Faults put in on purpose, to see that the checks notice them. Each is around the core or its store, whose own code stays as it is. */
import type { Effect, StepResult } from '../../scheduler/core/effects.ts';
import type { CoreEvent } from '../../scheduler/core/events.ts';
import { dropBelow } from '../../scheduler/core/jobs/streams.ts';
import type { Now } from '../../scheduler/core/now.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { EndpointConfig } from '../../scheduler/core/state/endpoints.ts';
import { step } from '../../scheduler/core/step/step.ts';
import type { Step } from '../../scheduler/engine/commit-loop.ts';
import type { Op } from '../../scheduler/core/ports/store.ts';

export type Mutation =
  /** Replies leave before the commit of what they tell. */
  | 'answer-before-commit'
  /** A requeue changes the state, but is not written. */
  | 'forget-requeue'
  /** A try of a webhook is known to the state, but not written. */
  | 'forget-try'
  /** A result counts whatever its token. */
  | 'ignore-token'
  /** Chunks are dropped as soon as they were answered. */
  | 'drop-on-answer'
  /** A slot is taken for free as soon as its job has ended on paper. */
  | 'free-slot-on-paper'
  /** Old workers take whatever comes until a new one is ready. */
  | 'old-code'
  /** The workers of a drained node stay. */
  | 'keep-drained'
  /** A rule for isolation drains no worker. */
  | 'keep-weak'
  /** No idle worker makes room for the jobs of another endpoint. */
  | 'keep-idle'
  /** An idle worker makes room however short a time it was there. */
  | 'no-stay'
  /** Idle workers of workersMin make room, too. */
  | 'preempt-min'
  /** Deployments are known to the state, but not written. */
  | 'forget-deployment'
  /** A removed endpoint takes calls again. */
  | 'revive'
  /** The quota is not looked at. */
  | 'no-quota'
  /** A rollback does not know the newest deployment with another build. */
  | 'skip-a-build'
  /** A purge is answered when its first jobs have ended. */
  | 'purge-less'
  /** A webhook secret that is replaced signs no more. */
  | 'forget-secret'
  /** The core is told that a refused operation was carried out. */
  | 'hide-refusals'
  /** An agent does not tell a new session of the results that nobody acknowledged. */
  | 'forget-result'
  /** A job whose neighbour ended their worker is charged for it. */
  | 'charge-neighbour'
  /** An agent does not send a new session the chunks that nobody has read. */
  | 'forget-chunks'
  /** A batch of another term changes no row of the cell, and that is no error: what it inserts is written. */
  | 'fence-by-count'
  /** A batch is written whether or not the one before it was. */
  | 'no-chain'
  /** A batch is refused after one that was not written, but not when it was written before. */
  | 'take-copies'
  /** An owner in doubt asks which of its batches are written, and goes on: their outcomes were lost with the answer. */
  | 'settle-by-marker'
  /** An owner in doubt reads its state anew, under the term that it has. */
  | 'keep-term'
  /** An owner runs effects however long ago its term was confirmed. */
  | 'no-fence'
  /** A standby takes a silent owner's queue over before that one stops its effects. */
  | 'take-early'
  /** A database that is behind what was acknowledged is taken over. */
  | 'trust-replica'
  /** Clients follow an owner of a lower term than they have seen. */
  | 'follow-lower-term'
  /** An owner goes by its host's clock. */
  | 'own-clock'
  /** A scheduler takes over a schema that is newer than it knows. */
  | 'older-owner';

type Reply = Extract<Effect, { kind: 'reply' }>;

/** The core's step with a fault in it; `send` sends a reply at once. */
export function mutatedStep(mutation: Mutation, send: (reply: Reply) => void): Step {
  return (state, event, now, result) => {
    const undo = undoable(mutation, state, event);
    if (mutation === 'no-stay') for (const worker of state.workers.values()) worker.readySince = Number.NEGATIVE_INFINITY;
    if (mutation === 'forget-secret') forgetSecret(state, event);
    if (mutation === 'charge-neighbour') chargeNeighbour(event);
    step(state, mutation === 'ignore-token' ? withTheTokenOfTheLease(event, state) : event, now, result);
    undo?.();
    if (mutation === 'answer-before-commit') sendReplies(state, now, result, send);
    if (mutation === 'free-slot-on-paper') freeOnPaper(state);
    if (mutation === 'keep-drained') keepDrained(state);
    if (mutation === 'keep-weak' && event.kind === 'command' && event.command.kind === 'put-account') keepWeak(state);
    if (mutation === 'drop-on-answer') dropAnswered(state);
    if (mutation === 'revive') revive(state);
    if (mutation === 'purge-less') for (const { purge } of state.endpoints.values()) if (purge !== null) purge.upTo = 0;
  };
}

/** Whether an operation is not written, although the core hears that it was. */
export function isForgotten(mutation: Mutation | null, op: Op): boolean {
  if (mutation === 'forget-requeue') return op.kind === 'requeue';
  if (mutation === 'forget-try') return op.kind === 'delivery';
  return mutation === 'forget-deployment' && op.kind === 'put' && op.rowKind === 'deployment';
}

function sendReplies(state: State, now: Now, result: StepResult, send: (reply: Reply) => void): void {
  const { effects } = result;
  for (const { effect } of effects) {
    if (effect.kind !== 'reply') continue;
    if (effect.usage !== null) step(state, { kind: 'replied', usages: [effect.usage] }, now, result);
    send(effect);
  }
  const kept = effects.filter(({ effect }) => effect.kind !== 'reply');
  effects.splice(0, effects.length, ...kept);
}

function withTheTokenOfTheLease(event: CoreEvent, state: State): CoreEvent {
  if (event.kind !== 'agent') return event;
  const report = event.events[0]?.event;
  const job = report?.$case === 'ended' ? state.jobs.get(report.value.jobId) : undefined;
  const session = state.nodes.get(job?.lease?.node ?? '')?.session ?? null;
  if (report?.$case !== 'ended' || job?.lease == null || session === null) return event;
  const forged = { event: { $case: 'ended', value: { ...report.value, token: job.token } } } as const;
  return { ...event, node: job.lease.node, session, events: [forged] };
}

function chargeNeighbour(event: CoreEvent): void {
  if (event.kind !== 'agent') return;
  for (const { event: report } of event.events) if (report?.$case === 'ended') report.value.suspected = false;
}

function freeOnPaper(state: State): void {
  for (const worker of state.workers.values()) {
    for (const [key, { job }] of worker.attempts) if (!state.jobs.has(job)) worker.attempts.delete(key);
  }
}

function dropAnswered(state: State): void {
  for (const [id, { token, next }] of state.handed) {
    const job = state.jobs.get(id);
    if (job?.token === token) dropBelow(state, job, next);
  }
}

function keepDrained(state: State): void {
  for (const worker of state.workers.values()) if (state.nodes.get(worker.node)?.config.draining === true) worker.drain = false;
}

function keepWeak(state: State): void {
  for (const worker of state.workers.values()) if (state.nodes.get(worker.node)?.config.draining === false) worker.drain = false;
}

/** Changes the state for one step; gives what puts it back. */
function undoable(mutation: Mutation, state: State, event: CoreEvent): (() => void) | null {
  switch (mutation) {
    case 'old-code':
      // No job is too new for an old worker.
      return withSettings(state, { releaseFrom: Number.MAX_SAFE_INTEGER });
    case 'keep-idle':
      return withSettings(state, { keepIdle: true });
    case 'preempt-min':
      return withSettings(state, { workersMin: 0 });
    case 'skip-a-build':
      return withoutABuild(state, event);
    default:
      return null;
  }
}

/** For one step, all endpoints have these settings; gives what puts their own back. */
function withSettings(state: State, settings: Partial<EndpointConfig>): () => void {
  const kept = [...state.endpoints.values()].map((endpoint) => ({ endpoint, config: endpoint.config }));
  const opened = new Map(kept.map(({ endpoint, config }) => [endpoint, { ...config, ...settings }]));
  for (const [endpoint, config] of opened) endpoint.config = config;
  return () => {
    for (const { endpoint, config } of kept) if (endpoint.config === opened.get(endpoint)) endpoint.config = config;
  };
}

function revive(state: State): void {
  for (const endpoint of state.endpoints.values()) {
    const { removing, ...config } = endpoint.config;
    if (removing !== undefined) endpoint.config = config;
  }
}

/** For the step of a rollback, the newest deployments with another build than the present one are not there. */
function withoutABuild(state: State, event: CoreEvent): (() => void) | null {
  if (event.kind !== 'command' || event.command.kind !== 'rollback') return null;
  const kept = new Map(state.deployments);
  for (const [key, history] of kept) {
    const builds = [...new Set(history.toReversed().flatMap(({ endpoints }) => endpoints.map(({ build }) => build)))];
    state.deployments.set(
      key,
      history.filter(({ endpoints }) => endpoints.every(({ build }) => build !== builds[1])),
    );
  }
  return () => {
    for (const [key, history] of kept) {
      const added = (state.deployments.get(key) ?? []).filter((row) => !history.includes(row));
      state.deployments.set(key, [...history, ...added]);
    }
  };
}

function forgetSecret(state: State, event: CoreEvent): void {
  if (event.kind !== 'command' || event.command.kind !== 'rotate-webhook-secret') return;
  const row = state.accounts.get(event.command.account);
  if (row !== undefined) state.accounts.set(event.command.account, { ...row, webhookSecretSealed: null });
}
