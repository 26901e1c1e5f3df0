/** Both clocks, ms. Wall time for ttl and retention, never running backwards; monotonic time for everything else. */
export interface Now {
  readonly wall: number;
  readonly mono: number;
}
