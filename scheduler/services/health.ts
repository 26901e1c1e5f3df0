/** The health state: one for the whole server and for every service on it. */
import type { HealthImplementation } from 'grpc-health-check';

import type { ServiceTaker } from './late-service.ts';

/** The whole server (a convention of the health protocol). */
const WHOLE = '';

export class Health {
  readonly #names = [WHOLE];
  #serving = false;
  /** The library, after the first call. */
  #implementation: HealthImplementation | null = null;

  /** Adds a service by its full name. */
  add(name: string): void {
    this.#names.push(name);
    this.#implementation?.setStatus(name, this.#status());
  }

  /** Sets whether the server may receive calls, and notifies watchers. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    for (const name of this.#names) this.#implementation?.setStatus(name, this.#status());
  }

  /** Loads the library and adds the health service to the given server. */
  async load(server: ServiceTaker): Promise<void> {
    const { HealthImplementation: Implementation } = await import('grpc-health-check');
    this.#implementation = new Implementation(Object.fromEntries(this.#names.map((name) => [name, this.#status()])));
    this.#implementation.addToServer(server);
  }

  #status(): 'SERVING' | 'NOT_SERVING' {
    return this.#serving ? 'SERVING' : 'NOT_SERVING';
  }
}
