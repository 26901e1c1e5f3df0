/**
 * Who has a task: the handler that is about to be entered, or the thread that takes it back while the main thread is
 * blocked. Whoever writes the task's number into its place in shared memory first has it.
 */

/** More than any worker's concurrency: two tasks with the same place are never both waiting. */
const PLACES = 4_096;

/** Returns the memory that both threads share. */
export function newClaims(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(PLACES * Int32Array.BYTES_PER_ELEMENT));
}

/** Claims the task of this number (RunSpec); returns false for one that the other thread has, or had. */
export function claim(claims: Int32Array, no: number): boolean {
  const place = no % PLACES;
  const latest = Atomics.load(claims, place);
  return latest < no && Atomics.compareExchange(claims, place, latest, no) === latest;
}
