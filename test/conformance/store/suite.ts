/**
 * What every driver of the store promises (scheduler/core/ports/store.ts), as tests. A driver joins by
 * a file that calls {@link storeConformance} with a way to open an empty store.
 */
import { batchRules } from './rules-batches.ts';
import { controlRules } from './rules-control.ts';
import { endRules } from './rules-ends.ts';
import { fenceRules } from './rules-fences.ts';
import { deliveryRules } from './rules-deliveries.ts';
import { leaseRules } from './rules-leases.ts';
import { orderRules } from './rules-order.ts';
import { searchRules } from './rules-search.ts';
import { removalRules } from './rules-removal.ts';
import { submitRules } from './rules-submit.ts';
import { usageRules } from './rules-usage.ts';
import { take } from './take.ts';
import type { Open, Use } from './use.ts';

export function storeConformance(name: string, open: Open): void {
  const use: Use = async (t) => {
    const subject = await open();
    t.teardown(() => subject.close());
    return { store: subject.store, fence: await take(subject.store), reopen: () => subject.reopen() };
  };
  submitRules(name, use);
  leaseRules(name, use);
  endRules(name, use);
  deliveryRules(name, use);
  removalRules(name, use);
  orderRules(name, use);
  batchRules(name, use);
  controlRules(name, use);
  usageRules(name, use);
  fenceRules(name, use);
  searchRules(name, use);
}
