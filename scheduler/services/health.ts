/** What health checks are told: one state for the server as a whole and for every service on it. */
import type { HealthImplementation } from 'grpc-health-check';

import type { ServiceTaker } from './late-service.ts';

/** The server as a whole (the health protocol's own convention). */
const WHOLE = '';

export class Health {
  readonly #names = [WHOLE];
  #serving = false;
  /** The library, once somebody asked. */
  #asked: HealthImplementation | null = null;

  /** Adds a service by its full name. */
  add(name: string): void {
    this.#names.push(name);
    this.#asked?.setStatus(name, this.#status());
  }

  /** False while the server must get no calls; watchers hear of it. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    for (const name of this.#names) this.#asked?.setStatus(name, this.#status());
  }

  /** Loads the library and puts the health service on what it is given. */
  async load(server: ServiceTaker): Promise<void> {
    const { HealthImplementation: Implementation } = await import('grpc-health-check');
    this.#asked = new Implementation(Object.fromEntries(this.#names.map((name) => [name, this.#status()])));
    this.#asked.addToServer(server);
  }

  #status(): 'SERVING' | 'NOT_SERVING' {
    return this.#serving ? 'SERVING' : 'NOT_SERVING';
  }
}
