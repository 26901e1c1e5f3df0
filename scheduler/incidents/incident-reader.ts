/** Reads the incidents of the running scheduler: for a key, for all accounts (metrics), for the alerts of an account. */
import type { Now } from '../core/now.ts';
import { accountExists } from '../core/control/keys.ts';
import type { State } from '../core/state.ts';
import type { DeliveryHead } from '../core/ports/store.ts';
import type { Figures } from './figures.ts';
import type { Incident } from './incident.ts';
import { incidents, ownIncidents } from './incidents.ts';
import type { KnownCertificate } from './of-certificates.ts';
import type { HostReader, SchedulerDisk } from './of-hosts.ts';

/** Undelivered webhooks of an account that are looked at. */
const MAX_DELIVERIES = 1_000;
/** What only operators are told of is not read for others. */
const NO_DISK: SchedulerDisk = { space: null, minFreePercent: 0 };
/** For how long what was read for metrics serves the next scrape, ms. */
const SERVES_MS = 5_000;

export interface IncidentReaderDeps {
  /** @throws CapstanError UNAVAILABLE if this scheduler does not own the queue. */
  readonly state: () => State;
  readonly now: () => Now;
  readonly deliveries: (account: string, limit: number) => Promise<readonly DeliveryHead[]>;
  readonly disk: () => Promise<SchedulerDisk>;
  readonly certificates: () => Promise<readonly KnownCertificate[]>;
  readonly figures: Figures;
}

export class IncidentReader {
  readonly #deps: IncidentReaderDeps;
  #all: { readonly at: number; readonly found: Promise<readonly Incident[]> } | undefined;

  constructor(deps: IncidentReaderDeps) {
    this.#deps = deps;
  }

  /** @throws CapstanError UNAVAILABLE if this scheduler does not own the queue. */
  async of(reader: HostReader): Promise<Incident[]> {
    const { state, now, deliveries, disk, certificates, figures } = this.#deps;
    const [undelivered, space, known] = await Promise.all([
      deliveries(reader.account, MAX_DELIVERIES),
      reader.operator ? disk() : NO_DISK,
      reader.operator ? certificates() : [],
    ]);
    return incidents({ state: state(), now: now(), reader, deliveries: undelivered, disk: space, figures, certificates: known });
  }

  /** Those of all accounts. */
  all(): Promise<readonly Incident[]> {
    const at = this.#deps.now().mono;
    if (this.#all === undefined || at - this.#all.at >= SERVES_MS) this.#all = { at, found: this.#readAll() };
    return this.#all.found;
  }

  /** An operator sees all of them but what each account alone sees: the whole service is looked at once, not for each account. */
  async #readAll(): Promise<readonly Incident[]> {
    const { state, now, deliveries } = this.#deps;
    const [first = '', ...others] = accountsOf(state());
    const found = await this.of({ account: first, operator: true });
    for (const account of others) {
      const undelivered = await deliveries(account, MAX_DELIVERIES);
      found.push(...ownIncidents({ state: state(), now: now(), reader: { account, operator: false }, deliveries: undelivered }));
    }
    return found;
  }
}

/** Accounts that can be used. */
export function accountsOf(state: State): string[] {
  const named = new Set([...state.accounts.keys(), ...[...state.keys.values()].map(({ account }) => account)]);
  return [...named].filter((account) => accountExists(state, account));
}
