/**
 * The base URL of the HTTP API that workers get as CAPSTAN_URL: the agent's own setting, else the scheduler's, else that of the first
 * gateway that tells its own.
 */
import { withHost } from '../../lib/unspecified-host.ts';
import type { Gateways } from '../../proto/gen/capstan/v1/nodes.ts';

export class GatewayUrl {
  readonly #configured: string;
  readonly #onChange: (url: string) => void;
  #scheduler = '';
  #listed = '';
  #shown: string | undefined;

  /** `onChange` is called with the first value, empty for none, and with each other one. */
  constructor(configured: string, onChange: (url: string) => void) {
    this.#configured = configured;
    this.#onChange = onChange;
  }

  get current(): string {
    return [this.#configured, this.#scheduler, this.#listed].find((url) => url !== '') ?? '';
  }

  /** Sets the scheduler's setting. */
  welcomed(publicUrl: string): void {
    this.#scheduler = publicUrl;
    this.#show();
  }

  /** Sets the list of gateways. `schedulerHost` is that of gateways without a host of their own. */
  listed({ gateways }: Gateways, schedulerHost: string): void {
    this.#listed = withHost(gateways.find(({ httpUrl }) => httpUrl !== '')?.httpUrl ?? '', schedulerHost);
    if (this.#shown !== undefined) this.#show();
  }

  #show(): void {
    if (this.#shown === this.current) return;
    this.#shown = this.current;
    this.#onChange(this.#shown);
  }
}
