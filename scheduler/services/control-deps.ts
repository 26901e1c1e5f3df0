/** The dependencies of the control plane's services. */
import type { AlertDelivery } from '../alerts/delivery.ts';
import type { UploadRoom } from '../blobs/upload-room.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { Cipher } from '../secrets/cipher.ts';
import type { MasterKeys } from '../rotation/master-keys.ts';
import type { SchedulerMetrics } from '../metrics/metrics.ts';
import type { WebhookSecrets } from '../webhooks/secrets.ts';
import type { Cells } from '../store/cells.ts';
import type { HistoryStore } from '../store/history.ts';
import type { DeviceHistoryStore } from '../store/device-history.ts';
import type { QueueReasonStore } from '../store/queue-reasons.ts';
import type { Snapshot } from '../store/snapshots.ts';
import type { IncidentReader } from '../incidents/incident-reader.ts';
import type { Authorizer } from './auth.ts';
import type { NodeSessions } from './node-service.ts';

export interface ControlDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly cipher: Cipher;
  readonly sessions: NodeSessions;
  readonly metrics: SchedulerMetrics;
  readonly history: HistoryStore;
  readonly queueReasons: QueueReasonStore;
  readonly deviceHistory: DeviceHistoryStore;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly webhookSecrets: WebhookSecrets;
  /** Returns why the account's webhooks may not use this URL; null if only the connection can decide. */
  readonly webhookRefusal: (url: string, account: string) => string | null;
  readonly delivery: AlertDelivery;
  readonly uploads: UploadRoom;
  /** The cells of the database; null where there is only one, which has no row. */
  readonly cells: Cells | null;
  /** Returns the size of a stored build; null if it does not exist. */
  readonly buildSize: (digest: string) => Promise<number | null>;
  /** Writes a consistent copy of the database. */
  readonly snapshot: () => Promise<Snapshot>;
  /** Whether a copy is being written. */
  readonly snapshotBusy: () => boolean;
  readonly masterKeys: MasterKeys;
  readonly incidents: Pick<IncidentReader, 'of'>;
  /** Called after a node was removed, durably. */
  readonly onNodeRemoved: () => void;
}
