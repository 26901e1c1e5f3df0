/** An endpoint as the tool prints it. */

export interface EndpointRow {
  readonly id: string;
  readonly name: string;
  readonly kind: 'queue' | 'load-balanced';
  readonly url: string;
  readonly environment: string;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly workers: number;
  readonly jobsInQueue: number;
  readonly jobsInProgress: number;
  /** Why jobs wait; empty when nothing is wrong (invariant 11). */
  readonly queueReason: string;
  readonly queueDetail: string;
  readonly functions: readonly string[];
  /** `<METHOD> <path>` → function name. */
  readonly routes: Readonly<Record<string, string>>;
  readonly buildDigest: string;
  readonly releaseId: string;
}
