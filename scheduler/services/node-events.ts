/** Builds the larger events of a node's session from the state: leased jobs, and the node's desired workers. */
import { withSecrets } from '../../lib/secret-references.ts';
import { toPayloadMessage, type Payload } from '../../lib/payload.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { Dispatch, ReleaseSpec, SchedulerEvent, WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { secretFor } from '../core/endpoints/secret-use.ts';
import { workerLimits } from '../core/fleet/placement/cpu-size.ts';
import { isolationRuleOf } from '../core/fleet/placement/isolation-rule.ts';
import { imageOf } from '../core/fleet/placement/runtime-choice.ts';
import type { State } from '../core/state.ts';
import type { SecretRow } from '../core/state/control-rows.ts';
import type { EndpointConfig, Release } from '../core/state/endpoints.ts';
import type { WorkerRecord } from '../core/state/fleet.ts';
import type { DispatchEffect } from '../engine/ports.ts';

/** Values that the state holds only encrypted, or not at all. */
export interface NodeSecrets {
  tokenOf(worker: WorkerRecord): string;
  /** Decrypts the environment values of an endpoint. */
  openEnv(config: EndpointConfig, encrypted: string): Record<string, string>;
  openSecret(secret: SecretRow): string;
}

/** Returns the event of a leased job with its input. */
export function dispatchEvent(effect: DispatchEffect, input: Payload, s3Config: Dispatch['s3Config']): SchedulerEvent {
  const value: Dispatch = {
    jobId: effect.job,
    token: effect.token,
    workerId: effect.worker,
    input: toPayloadMessage(input),
    executionTimeoutMs: effect.executionTimeoutMs,
    attempt: effect.attempt,
    webhook: effect.webhook,
    ...(effect.trace === '' ? {} : { trace: effect.trace }),
    ...(s3Config === undefined ? {} : { s3Config }),
  };
  return { event: { $case: 'dispatch', value } };
}

/** Returns the whole desired set of a node, with the releases it names. */
export function desiredEvent(
  state: State,
  { epoch, workers }: { readonly epoch: number; readonly workers: readonly WorkerRecord[] },
  secrets: NodeSecrets,
): SchedulerEvent {
  const specs: WorkerSpec[] = workers.map((worker) => ({
    workerId: worker.id,
    releaseId: worker.release,
    deviceUuids: [...worker.devices],
    drain: worker.drain,
    runtime: worker.runtime,
    token: secrets.tokenOf(worker),
  }));
  const releases: ReleaseSpec[] = [];
  for (const id of new Set(workers.map((worker) => worker.release))) {
    const release = state.releases.get(id);
    if (release !== undefined) releases.push(releaseSpec(state, release, secrets));
  }
  return { event: { $case: 'desired', value: { epoch, workers: specs, releases } } };
}

/** Returns the environment with the present values of secrets. A release of an earlier version has references as plain text. */
function environmentOf(
  state: State,
  config: EndpointConfig | undefined,
  release: Release,
  opener: NodeSecrets,
): Pick<ReleaseSpec, 'env' | 'secrets'> {
  if (config === undefined || release.envSealed === null) return { env: {}, secrets: [] };
  const env = opener.openEnv(config, release.envSealed);
  if (release.secrets === undefined) return { env, secrets: [] };
  const values = new Map<string, string>();
  for (const name of Object.keys(release.secrets)) {
    const secret = secretFor(state, config, name);
    if (secret !== undefined) values.set(name, opener.openSecret(secret));
  }
  return { env: withSecrets(env, (name) => values.get(name)), secrets: [...values.values()] };
}

function releaseSpec(state: State, release: Release, secrets: NodeSecrets): ReleaseSpec {
  const config = state.endpoints.get(release.endpoint)?.config;
  const account = config?.account ?? '';
  const { least, network } = isolationRuleOf(state, account, release);
  const limits = workerLimits(release);
  return {
    releaseId: release.id,
    endpointId: release.endpoint,
    endpointName: config?.name ?? '',
    kind: config?.kind === 'LOAD_BALANCED' ? EndpointKind.LOAD_BALANCED : EndpointKind.QUEUE,
    buildDigest: release.buildDigest,
    buildSize: release.buildSize,
    runtime: release.runtime,
    functions: [...release.functions],
    ...environmentOf(state, config, release, secrets),
    maxConcurrency: release.maxConcurrency,
    startTimeoutMs: release.startTimeoutS * 1_000 || state.settings.startTimeoutMs,
    memoryBytes: BigInt(limits.memoryBytes),
    image: imageOf(release),
    command: [...release.command],
    cpuMillis: limits.cpuMillis,
    environment: config?.environment ?? '',
    accountId: account,
    closedNetwork: state.accounts.get(account)?.network === 'auto',
    ...(network === undefined ? {} : { network }),
    ...(least === 'none' ? {} : { leastIsolation: least }),
  };
}
