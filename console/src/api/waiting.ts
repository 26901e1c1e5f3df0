/**
 * Requests that wait at the gateway until there is something to say. Over HTTP/1.1 a browser opens six connections to a host for all
 * of its tabs, and one is the stream of changes: so few tabs wait at once that connections are left for everything else.
 */
import { BASE_PATH } from './request.ts';

/** Requests of a browser that wait at once. */
const MAX = 3;
const LOCK = 'capstan-waiting';

/** Runs a request; `mayWait` is false while others of this browser wait, and where tabs cannot agree (without HTTPS). */
export async function runWaiting<T>(request: (mayWait: boolean) => Promise<T>): Promise<T> {
  if (!('locks' in navigator)) return request(false);
  for (let place = 0; place < MAX; place++) {
    const done = await navigator.locks.request(`${LOCK} ${BASE_PATH} ${place}`, { ifAvailable: true }, async (lock) =>
      lock === null ? undefined : { value: await request(true) },
    );
    if (done !== undefined) return done.value;
  }
  return request(false);
}
