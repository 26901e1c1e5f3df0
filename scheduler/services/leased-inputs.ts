/** Inputs in the blob store that were sent to nodes with a job: a node may read them while it holds the job's lease. */
import type { State } from '../core/state.ts';

interface Leased {
  readonly node: string;
  readonly job: string;
  readonly token: number;
}

/** Number of entries from which those without a lease are removed. */
const SWEEP_FROM = 1_000;

export class LeasedInputs {
  readonly #image: () => State;
  /** By the id of the blob. */
  readonly #sent = new Map<string, Leased>();
  #sweepAt = SWEEP_FROM;

  constructor(image: () => State) {
    this.#image = image;
  }

  /** Records that a job with this input was sent to a node. */
  sent(blob: string, leased: Leased): void {
    this.#sent.set(blob, leased);
    if (this.#sent.size < this.#sweepAt) return;
    for (const [id, each] of this.#sent) if (!this.#stands(each)) this.#sent.delete(id);
    this.#sweepAt = Math.max(SWEEP_FROM, this.#sent.size * 2);
  }

  /** Returns the job with this input whose lease a node holds, if there is one. */
  leasedTo(node: string, blob: string): Readonly<Leased> | undefined {
    const leased = this.#sent.get(blob);
    return leased?.node === node && this.#stands(leased) ? leased : undefined;
  }

  #stands({ node, job, token }: Leased): boolean {
    const found = this.#image().jobs.get(job);
    return found?.token === token && found.lease?.node === node;
  }
}
