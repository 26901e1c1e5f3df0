/**
 * Bytes that are kept for longer than the message they came in. Node cuts small buffers out of a
 * shared pool (64 KiB), and a decoded message may be a view into a larger one: a kept view of ten
 * bytes then holds all of it in memory, and no bound that adds up lengths sees that.
 */

/** Memory that a kept buffer takes beside its bytes: the view, the array buffer, its backing store and its entry in a map or list. Measured on Node 24: 300 to 560. */
export const KEPT_BUFFER_BYTES = 512;

/** Returns the bytes in a buffer of their own; they are copied unless they fill theirs. */
export function ownedCopy(bytes: Uint8Array): Buffer {
  const { buffer, byteOffset, byteLength } = bytes;
  if (byteLength === buffer.byteLength) return Buffer.from(buffer, byteOffset, byteLength);
  const own = Buffer.allocUnsafeSlow(byteLength);
  own.set(bytes);
  return own;
}
