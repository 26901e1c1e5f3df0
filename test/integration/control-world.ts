/** A scheduler whose control plane is called with any key, and watched as gateways do. */
import type { ExecutionContext } from 'ava';
import { JobKind, type JobState } from '../../proto/gen/capstan/v1/common.ts';
import {
  EndpointPatch,
  type KeyScope,
  type AccountInfo,
  type CreateAccountResponse,
  type CreateKeyResponse,
  type DeployResponse,
  type DirectoryUpdate,
  type EndpointInfo,
  type ListBuildsResponse,
  type ListDeploymentsResponse,
  type ListEndpointsResponse,
  type ListEnvironmentsResponse,
  type ListKeysResponse,
  type RollbackRequest,
  type UndeployResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import type { AttemptOutcome, Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, unary, type TestSession } from '../support/scheduler-client.ts';

export async function open(t: ExecutionContext, settings: Record<string, unknown> = {}, deps = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open(settings, deps);
  t.teardown(() => scheduler.close());
  return scheduler;
}

/** The control plane as the holder of a key sees it. */
export function as(scheduler: TestScheduler, key = scheduler.secret('api-key')) {
  const { control } = scheduler;
  const metadata = scheduler.bearer(key);
  return {
    endpoints: async (environment = '') =>
      (await unary<ListEndpointsResponse>((done) => control.listEndpoints({ environment }, metadata, done))).endpoints,
    environments: async () => (await unary<ListEnvironmentsResponse>((done) => control.listEnvironments({}, metadata, done))).environments,
    builds: async (endpoint = '', environment = '') =>
      (await unary<ListBuildsResponse>((done) => control.listBuilds({ environment, endpoint }, metadata, done))).builds,
    deployments: async () =>
      (await unary<ListDeploymentsResponse>((done) => control.listDeployments({ environment: '', limit: 0 }, metadata, done))).deployments,
    rollback: async (request: Partial<RollbackRequest> = {}) =>
      unary<DeployResponse>((done) => control.rollback({ environment: '', endpoint: '', build: '', ...request }, metadata, done)),
    update: async (endpointId: string, patch: Partial<EndpointPatch>) =>
      unary<EndpointInfo>((done) => control.updateEndpoint({ endpointId, patch: EndpointPatch.fromPartial(patch) }, metadata, done)),
    undeploy: async (endpoints: string[], stopJobs = false) =>
      unary<UndeployResponse>((done) => control.undeploy({ environment: '', endpoints, stopJobs, all: false }, metadata, done)),
    undeployAll: async (environment: string, endpoints: string[] = [], stopJobs = false) =>
      unary<UndeployResponse>((done) => control.undeploy({ environment, endpoints, stopJobs, all: true }, metadata, done)),
    createEnvironment: async (name: string) => unary((done) => control.createEnvironment({ name }, metadata, done)),
    deleteEnvironment: async (name: string, force = false) =>
      unary<UndeployResponse>((done) => control.deleteEnvironment({ name, force, stopJobs: false }, metadata, done)),
    createKey: async (scope: KeyScope, more: { endpoints?: string[]; environment?: string; expiresInS?: number; account?: string } = {}) =>
      unary<CreateKeyResponse>((done) =>
        control.createKey({ name: 'made', scope, endpoints: [], environment: '', expiresInS: 0, account: '', ...more }, metadata, done),
      ),
    keys: async () => (await unary<ListKeysResponse>((done) => control.listKeys({ account: '' }, metadata, done))).keys,
    revoke: async (id: string) => unary((done) => control.revokeKey({ id, account: '' }, metadata, done)),
    account: async () => unary<AccountInfo>((done) => control.getAccount({}, metadata, done)),
    createAccount: async (id: string, workerQuota = 0) =>
      unary<CreateAccountResponse>((done) => control.createAccount({ id, workerQuota }, metadata, done)),
    setQuota: async (id: string, workerQuota?: number) =>
      unary<AccountInfo>((done) => control.updateAccount({ id, ...(workerQuota === undefined ? {} : { workerQuota }) }, metadata, done)),
    joinToken: async () =>
      unary((done) => control.createJoinToken({ name: '', expiresInS: 0, maxUses: 0, neverExpires: false }, metadata, done)),
  };
}

/** A watching gateway's updates, in order. */
export class Watch {
  readonly #updates: DirectoryUpdate[] = [];
  #wake: () => void = () => undefined;

  constructor(t: ExecutionContext, scheduler: TestScheduler) {
    const call = scheduler.control.watchDirectory({}, scheduler.bearer(scheduler.secret('gateway-token')));
    t.teardown(() => call.cancel());
    call.on('error', () => undefined);
    call.on('data', (update: DirectoryUpdate) => {
      this.#updates.push(update);
      this.#wake();
    });
  }

  /** The next update that is as wanted. */
  async until(wanted: (update: DirectoryUpdate) => boolean): Promise<DirectoryUpdate> {
    for (;;) {
      const update = this.#updates.shift();
      if (update === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else if (wanted(update)) return update;
    }
  }
}

export function submit(jobId: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, ...more },
  };
}

export const failure = ({ result }: JobReply): string => (result?.$case === 'failure' ? result.value.code : '');
export const stateOf = ({ result }: JobReply): JobState | undefined => (result?.$case === 'job' ? result.value.state : undefined);
export const errorOf = ({ result }: JobReply): string | undefined => (result?.$case === 'job' ? result.value.error : undefined);

export function ended(session: TestSession, { jobId, token }: Dispatch, outcome: AttemptOutcome): void {
  const value = { jobId, token, outcome, error: '', executionMs: 1, agoMs: 0, started: true, chunks: 0, slotHeld: false };
  session.send({ $case: 'ended', value });
}

export const bytes = (name: string): Buffer => Buffer.from(`the build ${name}`);
