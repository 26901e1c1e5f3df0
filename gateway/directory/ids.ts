/** Ids and names in requests: which can be valid, and how to print any other. */
import { ENDPOINT_ID, NAME } from '../../lib/endpoint-names.ts';

/** Ids are visible ASCII. Anything else cannot be an id of the service and needs no look-up. */
export function isId(text: string): boolean {
  return /^[\x21-\x7e]{1,128}$/.test(text);
}

/** Names of endpoints that a look-up may find: the scheduler accepts no others at a deployment. */
export function isName(text: string): boolean {
  return NAME.test(text) && !ENDPOINT_ID.test(text);
}

/** Returns a caller's id, shortened and escaped for use in a message. */
export function printable(id: string): string {
  const cut = id.length > 64 ? `${id.slice(0, 64)}…` : id;
  return JSON.stringify(cut.toWellFormed());
}
