/**
 * Generates names in the core: a small generator (sfc32) whose state is part of the core's state, so that a run can be
 * replayed from its seed. For names only, never for secrets.
 */

export type RandomState = [number, number, number, number];

/** Returns the next 32 random bits. */
function nextRandom(state: RandomState): number {
  const [a, b, c, d] = state;
  const sum = (a + b + d) >>> 0;
  state[0] = (b ^ (b >>> 9)) >>> 0;
  state[1] = (c + (c << 3)) >>> 0;
  state[2] = (((c << 21) | (c >>> 11)) + sum) >>> 0;
  state[3] = (d + 1) >>> 0;
  return sum;
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const letterDigits = `${LETTERS}0123456789`;

/** Returns a name of lower-case letters and digits that starts with a letter: valid in a URL and as a DNS label. */
export function randomName(state: RandomState, length: number): string {
  let name = LETTERS.charAt(nextRandom(state) % LETTERS.length);
  while (name.length < length) name += letterDigits.charAt(nextRandom(state) % letterDigits.length);
  return name;
}
