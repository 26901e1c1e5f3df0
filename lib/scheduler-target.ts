/** The setting CAPSTAN_SCHEDULER: one address, or those of an owner and its standbys, as gRPC's target. */
import { isIPv4 } from 'node:net';

/** What the setting must be, for its refusal. */
export const SCHEDULER_RULE = 'must be host:port, unix:<path>, or several <IPv4 address>:<port> separated by commas';

const PORT = /:\d{1,5}$/;

export function isSchedulerAddress(text: string): boolean {
  if (/^unix:./.test(text)) return true;
  const addresses = text.split(',');
  if (addresses.length === 1) return /^.+:\d{1,5}$/.test(text);
  return addresses.every((address) => PORT.test(address) && isIPv4(address.replace(PORT, '')));
}

/** Of several addresses gRPC uses the first that accepts connections: a standby listens once it owns the queue. */
export function schedulerTarget(text: string): string {
  return text.includes(',') && !text.startsWith('unix:') ? `ipv4:${text}` : text;
}
