/** The endpoints, of all cells, whose requests no worker will serve for now, as their schedulers report them. */
import { CapstanError } from '../../lib/errors.ts';
import type { UnservableEndpoint } from '../../proto/gen/capstan/v1/invoke.ts';

/** Limits of `Retry-After`, ms. */
const MIN_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

export class UnservableEndpoints {
  readonly #byCell = new Map<string, ReadonlyMap<string, UnservableEndpoint>>();
  readonly #onChange: () => void;

  /** `onChange` is called when the set has changed. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Replaces the part of one cell. */
  set(cell: string, endpoints: readonly UnservableEndpoint[]): void {
    this.#byCell.set(cell, new Map(endpoints.map((each) => [each.endpointId, each])));
    this.#onChange();
  }

  /** Returns why no worker will serve the endpoint's requests; undefined while one may. Strangers get no details. */
  refusal(endpointId: string, hasKey: boolean): CapstanError | undefined {
    for (const endpoints of this.#byCell.values()) {
      const found = endpoints.get(endpointId);
      if (found === undefined) continue;
      const retryAfterMs = Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, found.retryAfterMs));
      const detail = !hasKey || found.detail === '' ? '' : `: ${found.detail}`;
      return new CapstanError('UNAVAILABLE', `no worker serves the endpoint: ${found.reason}${detail}`, { retryAfterMs });
    }
    return undefined;
  }
}
