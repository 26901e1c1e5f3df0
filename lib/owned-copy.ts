/**
 * Copies bytes that are kept longer than their message. Node cuts small buffers out of a shared pool (64 KiB), and a
 * decoded message may be a view into a larger one: a kept view of ten bytes then keeps all of it in memory, and a limit
 * that adds up lengths does not notice.
 */

/**
 * Overhead of a kept buffer beside its bytes: the view, the array buffer, its backing store and its entry in a map or
 * list. Measured on Node 24: 300 to 560.
 */
export const KEPT_BUFFER_BYTES = 512;

/** Returns the bytes in a buffer of their own; copies them unless they fill their buffer. */
export function ownedCopy(bytes: Uint8Array): Buffer {
  const { buffer, byteOffset, byteLength } = bytes;
  if (byteLength === buffer.byteLength) return Buffer.from(buffer, byteOffset, byteLength);
  const own = Buffer.allocUnsafeSlow(byteLength);
  own.set(bytes);
  return own;
}
