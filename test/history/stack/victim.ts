/** A process of the stack, or several that belong together, that faults can kill and pause. */
export interface Victim {
  readonly name: string;
  /** Empty while it does not run. */
  readonly pids: readonly number[];
  /** Settles when it serves; after {@link kill}, when its next start does. */
  readonly ready: Promise<unknown>;
  kill(): Promise<void>;
}
