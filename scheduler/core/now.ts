/** Both clocks, ms. Wall for ttl and retention, never running backwards; mono for everything else. */
export interface Now {
  readonly wall: number;
  readonly mono: number;
}
