/** The incidents that a reader may see. */
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import type { DeliveryHead } from '../core/ports/store.ts';
import { fold } from './fold.ts';
import type { Incident } from './incident.ts';
import type { Figures } from './figures.ts';
import { accountIncidents } from './of-accounts.ts';
import { certificateIncidents, type KnownCertificate } from './of-certificates.ts';
import { endpointIncidents, webhookIncidents } from './of-endpoints.ts';
import { nodeIncidents, schedulerDiskIncidents, type HostReader, type SchedulerDisk } from './of-hosts.ts';

export interface IncidentSources {
  readonly state: State;
  readonly now: Now;
  readonly reader: HostReader;
  /** Undelivered webhooks of the reader's account. */
  readonly deliveries: readonly DeliveryHead[];
  readonly disk: SchedulerDisk;
  readonly figures: Figures;
  /** Those that the scheduler knows. */
  readonly certificates: readonly KnownCertificate[];
}

/**
 * Returns those of the reader's account, and for operators also those of other accounts' endpoints, of nodes and of disks: the most
 * urgent first, a cause before its effects.
 */
export function incidents({ state, now, reader, deliveries, disk, figures, certificates }: IncidentSources): Incident[] {
  const endpoints = [...state.endpoints.values()].filter(
    ({ config }) => (reader.operator || config.account === reader.account) && config.removing === undefined,
  );
  return fold([
    ...(reader.operator ? schedulerDiskIncidents(disk) : []),
    ...[...state.nodes.values()].flatMap((node) => nodeIncidents(state, node, now, reader)),
    ...endpoints.flatMap((endpoint) => endpointIncidents(state, endpoint, now, figures)),
    ...ownFaults({ state, now, reader, deliveries }),
    ...(reader.operator ? certificateIncidents(certificates, now) : []),
  ]);
}

/** Returns those of an account that an operator of another account does not see. */
export function ownIncidents(sources: OwnSources): Incident[] {
  return fold(ownFaults(sources));
}

type OwnSources = Pick<IncidentSources, 'state' | 'now' | 'reader' | 'deliveries'>;

function ownFaults({ state, now, reader, deliveries }: OwnSources): Incident[] {
  return [...webhookIncidents(state, deliveries), ...accountIncidents(state, reader.account, now)];
}
