/** Nodes, workers, webhooks and what was decided, as rows: asked of the gateway where one is configured, else of the scheduler. */
import type { EndpointDetail } from './endpoint-detail.ts';
import type { NodeRow } from './node-row.ts';
import type { WebhookRow } from './webhook-row.ts';
import type { WorkerRow } from './worker-row.ts';

export interface Fleet {
  nodes(): Promise<NodeRow[]>;
  /** How the node is now. */
  drainNode(id: string): Promise<NodeRow | null>;
  resumeNode(id: string): Promise<NodeRow | null>;
  /** CONFLICT while it has workers, unless forced. */
  removeNode(id: string, force: boolean): Promise<void>;
  /** Of one endpoint, by id or name, or of all. */
  workers(endpoint: string | undefined): Promise<WorkerRow[]>;
  /** An endpoint by id or name; an empty environment means all. Null when it was deleted meanwhile. */
  endpoint(environment: string, wanted: string): Promise<EndpointDetail | null>;
  webhooks(): Promise<WebhookRow[]>;
  redeliverWebhook(id: string): Promise<void>;
  webhookSecret(): Promise<string>;
  /** `previousUntil`: ISO 8601, null when there was none before. */
  rotateWebhookSecret(): Promise<{ readonly secret: string; readonly previousUntil: string | null }>;
}
