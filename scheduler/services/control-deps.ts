/** What the control plane's services work with. */
import type { UploadRoom } from '../blobs/upload-room.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import type { Cipher } from '../secrets/cipher.ts';
import type { MasterKeys } from '../secrets/master-keys.ts';
import type { SchedulerMetrics } from '../metrics/metrics.ts';
import type { WebhookSecrets } from '../webhooks/secrets.ts';
import type { Snapshot } from '../store/snapshots.ts';
import type { Authorizer } from './auth.ts';
import type { NodeSessions } from './node-service.ts';

export interface ControlDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly cipher: Cipher;
  readonly sessions: NodeSessions;
  readonly metrics: SchedulerMetrics;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly webhookSecrets: WebhookSecrets;
  readonly uploads: UploadRoom;
  /** Size of a stored build, or null when it is not there. */
  readonly buildSize: (digest: string) => Promise<number | null>;
  /** Writes a consistent copy of the database. */
  readonly snapshot: () => Promise<Snapshot>;
  /** One is being written. */
  readonly snapshotBusy: () => boolean;
  readonly masterKeys: MasterKeys;
  /** A node was removed, durably. */
  readonly onNodeRemoved: () => void;
}
