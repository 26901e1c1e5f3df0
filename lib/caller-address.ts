/** The metadata in which a gateway tells the scheduler where a call of the control plane comes from. */
export const ADDRESS_KEY = 'capstan-caller-address';
/** The metadata with the gateway token, by which the scheduler believes the address: the call itself has the caller's key. */
export const GATEWAY_KEY = 'capstan-gateway-token';

/** Characters of the longest address, an IPv6 address with a zone or a range. */
const MAX_ADDRESS = 64;

/** Returns an address as it is stored; empty for what is none. */
export function callerAddress(value: string): string {
  return value.length <= MAX_ADDRESS && /^[0-9A-Za-z.:%/-]*$/.test(value) ? value : '';
}
