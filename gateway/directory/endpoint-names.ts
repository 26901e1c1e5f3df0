/** Endpoints by account and name. Each environment of an account has at most one of a name. */
import type { EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';

export class EndpointNames<Endpoint extends Pick<EndpointEntry, 'id' | 'accountId' | 'name'>> {
  /** Keyed by account and name; an account's id has no slash. */
  readonly #named = new Map<string, readonly Endpoint[]>();

  get(account: string, name: string): readonly Endpoint[] {
    return this.#named.get(`${account}/${name}`) ?? [];
  }

  /** Adds an endpoint, or replaces the one with its id. */
  set(endpoint: Endpoint): void {
    const { id, accountId, name } = endpoint;
    const others = this.get(accountId, name).filter((each) => each.id !== id);
    this.#named.set(`${accountId}/${name}`, [...others, endpoint]);
  }

  delete({ id, accountId, name }: Endpoint): void {
    const others = this.get(accountId, name).filter((each) => each.id !== id);
    if (others.length === 0) this.#named.delete(`${accountId}/${name}`);
    else this.#named.set(`${accountId}/${name}`, others);
  }
}
