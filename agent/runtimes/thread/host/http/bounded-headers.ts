/** Keeps the headers of a response within a frame. */

type Headers = readonly (readonly [name: string, value: string])[];

/** More than callers may receive (lib/response-validator.ts): what is cut off here is refused there, with the reason. */
const MAX_BYTES = 65 * 1024;
const PAIR_BYTES = 4;

/** Returns the headers, cut off behind MAX_BYTES. */
export function boundedHeaders(headers: Headers): Headers {
  let left = MAX_BYTES;
  const kept: (readonly [string, string])[] = [];
  for (const [name, value] of headers) {
    if (left <= 0) break;
    kept.push([name.slice(0, left), value.slice(0, left)]);
    left -= name.length + value.length + PAIR_BYTES;
  }
  return kept;
}
