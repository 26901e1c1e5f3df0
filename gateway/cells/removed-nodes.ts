/** Nodes that may no longer connect, of all cells: each cell replaces its own part. */
export class RemovedNodes {
  readonly #byCell = new Map<string, readonly string[]>();
  readonly #onChange: (nodes: readonly string[]) => void;

  constructor(onChange: (nodes: readonly string[]) => void) {
    this.#onChange = onChange;
  }

  set(cell: string, nodes: readonly string[]): void {
    this.#byCell.set(cell, nodes);
    this.#onChange([...this.#byCell.values()].flat());
  }
}
