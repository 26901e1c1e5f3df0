/**
 * Returns the memory of a read at once. A socket reads into buffers of 64 KiB, of which a flood leaves a thousand a second; left to
 * the collector they made the agent grow by tens of MiB.
 */
export function freeBuffer({ buffer, byteLength }: Buffer): void {
  // A piece of a longer buffer has neighbours in it.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
