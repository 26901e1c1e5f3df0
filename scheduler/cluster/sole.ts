/** The only scheduler there is: its queue is in a file of its own. */
import { SchedulerRole } from '../../proto/gen/capstan/v1/cluster.ts';
import type { ClusterView, OwnFacts } from './cluster.ts';

/** @param term of the queue; null while it is being taken over. */
export function soleScheduler(own: OwnFacts, term: () => bigint | null): ClusterView {
  const startedAt = performance.now();
  let { address } = own;
  return {
    seen: null,
    listening: (known) => (address = known),
    list: () => {
      const ageMs = BigInt(Math.trunc(performance.now() - startedAt));
      const { id, cell, hostName, version } = own;
      const masterKeyIds = [...own.masterKeys()];
      const masterKeyId = masterKeyIds[0] ?? '';
      const owner = { name: cell, ownerId: id, ownerAddress: address, term: term() ?? 0n, termAgeMs: ageMs };
      return Promise.resolve({
        cells: [{ ...owner, takeOvers: 0n, previousOwnerAddress: '', standbys: 0, masterKeyId }],
        schedulers: [
          {
            id,
            cell,
            role: SchedulerRole.OWNER,
            address,
            hostName,
            version,
            schemaVersion: 0,
            masterKeyIds,
            roleAgeMs: ageMs,
            lastSeenAgeMs: 0n,
            clockOffsetMs: 0n,
          },
        ],
        answeredBy: id,
      });
    },
    leave: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
