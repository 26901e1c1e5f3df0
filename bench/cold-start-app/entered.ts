/** Each handler returns the time at which it was entered, ms since 1970. */
const now = (): number => performance.timeOrigin + performance.now();

export function inThread(n: number): { n: number; at: number } {
  return { n, at: now() };
}

export function inProcess(n: number): { n: number; at: number } {
  return { n, at: now() };
}

export function inContainer(n: number): { n: number; at: number } {
  return { n, at: now() };
}
