/**
 * Who may call which method of the scheduler. It is checked from the metadata of a call, before its message is read and decoded. The
 * handlers check again, with what the message names, and after each wait.
 */
import type { Metadata, ServiceDefinition } from '@grpc/grpc-js';

import type { MethodRules } from '../../lib/grpc-admission.ts';
import type { BlobServiceService } from '../../proto/gen/capstan/v1/blobs.ts';
import type { ControlServiceService } from '../../proto/gen/capstan/v1/control.ts';
import type { GatewayServiceService } from '../../proto/gen/capstan/v1/invoke.ts';
import type { JobServiceService } from '../../proto/gen/capstan/v1/jobs.ts';
import type { NodeServiceService } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Authorizer } from './auth.ts';

/** The compiler names a method without a rule. */
type RulesOf<Service extends ServiceDefinition> = { readonly [Method in keyof Service]: MethodRules };

export interface ServiceRules {
  readonly jobs: RulesOf<JobServiceService>;
  readonly nodes: RulesOf<NodeServiceService>;
  readonly gateways: RulesOf<GatewayServiceService>;
  readonly control: RulesOf<ControlServiceService>;
  readonly blobs: RulesOf<BlobServiceService>;
}

const KIB = 1024;

export function serviceRules(auth: Authorizer): ServiceRules {
  const permits = (check: (metadata: Metadata) => unknown): MethodRules => ({ permits: (metadata) => void check(metadata) });
  const gateway = permits((metadata) => auth.gateway(metadata));
  const owner = permits((metadata) => auth.owner(metadata));
  const operator = permits((metadata) => auth.operator(metadata));
  const keyHolder = permits((metadata) => auth.keyHolder(metadata));
  const reader = permits((metadata) => auth.reader(metadata));
  const wholeReader = permits((metadata) => auth.wholeReader(metadata));
  const blobs = permits((metadata) => auth.blobs(metadata));
  return {
    jobs: { channel: gateway, cancel: gateway, retry: gateway, purgeQueue: gateway, listJobs: gateway, getHealth: gateway },
    nodes: {
      join: { open: true, credentialInMessage: true, messageBytes: 4 * KIB },
      // A node keeps one session, and a second while the scheduler has not noticed that the first broke.
      session: { ...permits((metadata) => auth.node(metadata)), perCaller: 4 },
    },
    gateways: { session: gateway },
    // Frames have at most 256 KiB.
    blobs: {
      put: { ...blobs, messageBytes: 512 * KIB },
      get: { ...blobs, messageBytes: 4 * KIB },
      stat: { ...blobs, messageBytes: 4 * KIB },
    },
    control: {
      watchDirectory: gateway,
      lookupKey: gateway,
      lookupEndpoint: gateway,
      lookupEndpointName: gateway,
      noteKeyUse: gateway,
      getMetrics: gateway,
      deploy: owner,
      updateEndpoint: owner,
      startWorker: owner,
      undeploy: owner,
      rollback: owner,
      createEnvironment: owner,
      deleteEnvironment: owner,
      createKey: owner,
      revokeKey: owner,
      countJobs: owner,
      startBulkOperation: owner,
      listBulkOperations: owner,
      stopBulkOperation: owner,
      listWebhooks: owner,
      redeliverWebhook: owner,
      getWebhookSecret: owner,
      listAudit: owner,
      setSecret: { ...owner, messageBytes: 64 * KIB },
      deleteSecret: owner,
      addAlertChannel: owner,
      removeAlertChannel: owner,
      testAlertChannel: owner,
      rotateWebhookSecret: owner,
      createSession: keyHolder,
      getSession: keyHolder,
      endSession: keyHolder,
      listEndpoints: reader,
      getEndpoint: reader,
      listWorkers: reader,
      listActivity: reader,
      listEnvironments: reader,
      getHistory: reader,
      searchJobs: reader,
      summarizeJobs: reader,
      getJob: reader,
      listBuilds: wholeReader,
      listDeployments: wholeReader,
      listKeys: wholeReader,
      listSecrets: wholeReader,
      listAlertChannels: wholeReader,
      getAccount: wholeReader,
      listNodes: wholeReader,
      listMachineTypes: wholeReader,
      listAttention: wholeReader,
      getLogs: wholeReader,
      listCells: permits((metadata) => (auth.identify(metadata).role === 'gateway' ? undefined : auth.operator(metadata))),
      createCell: operator,
      moveAccount: operator,
      assignNode: operator,
      createAccount: operator,
      listAccounts: operator,
      updateAccount: operator,
      deleteAccount: operator,
      createJoinToken: operator,
      listJoinTokens: operator,
      revokeJoinToken: operator,
      getDeviceHistory: operator,
      drainNode: operator,
      resumeNode: operator,
      removeNode: operator,
      snapshotQueue: operator,
      getMasterKey: operator,
      rotateMasterKey: operator,
      prepareMasterKey: operator,
    },
  };
}
