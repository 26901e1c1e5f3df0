/** Loaded into a process before anything else: its wall clock is three days behind, or `?behindMs=` (negative: ahead). */
const behindMs = Number(new URL(import.meta.url).searchParams.get('behindMs') ?? 3 * 86_400_000);
const now = Date.now;
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [now() - behindMs] : args));
  }

  static now() {
    return now() - behindMs;
  }
};
