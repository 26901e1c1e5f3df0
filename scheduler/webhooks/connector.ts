/**
 * Connects only to addresses that the guard admits. A name is resolved here, once, and the connection uses the
 * addresses that were checked: a later resolution with another result (DNS rebinding) has no effect.
 */
import { isIP, type LookupFunction } from 'node:net';

import type { buildConnector } from 'undici';

import { bareHost, type AddressGuard } from './guard.ts';
import type { Resolve } from './resolver.ts';

/** The guard admits no address of the host. */
export class AddressRefused extends Error {
  constructor(host: string) {
    super(`${host} resolves to a private address that CAPSTAN_WEBHOOK_ALLOW does not include`);
    this.name = 'AddressRefused';
  }
}

/** Creates a connector for undici from its `build`; `timeoutMs` covers resolving, connecting and the TLS handshake. */
export function guardedConnector(
  build: typeof buildConnector,
  guard: AddressGuard,
  resolve: Resolve,
  timeoutMs: number,
): buildConnector.connector {
  const lookup: LookupFunction = (hostname, options, done) => {
    const host = bareHost(hostname);
    resolve(host).then(
      (addresses) => {
        const admitted = addresses.filter((address) => guard.admits(host, address)).map((address) => ({ address, family: isIP(address) }));
        const [first] = admitted;
        if (first === undefined) done(new AddressRefused(host), '');
        else if (options.all === true) done(null, admitted);
        else done(null, first.address, first.family);
      },
      (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), ''),
    );
  };
  const connect = build({ lookup, timeout: timeoutMs, allowH2: false, autoSelectFamily: true });
  return (options, callback) => {
    // An address needs no lookup.
    const host = bareHost(options.hostname);
    if (isIP(host) !== 0 && !guard.admits(host, host)) callback(new AddressRefused(host), null);
    else connect(options, callback);
  };
}
