/** Who hears a host, whichever way it was started. */
import type { FromHost } from './protocol.ts';

export interface HostListener {
  /** The handler of this task was entered. May come after the task's end, from the other channel. */
  entered(key: string): void;
  frame(frame: FromHost, body: Buffer): void;
  line(stream: 'stdout' | 'stderr', text: string): void;
  /** The host reads no frame any more, and has said its last one: it is about to be gone. */
  closed(): void;
  exited(detail: string): void;
}

/** What a host says, in order: kept while it is a spare that nobody listens to. */
export class BufferedListener {
  #listener: HostListener | undefined;
  #early: ((listener: HostListener) => void)[] = [];

  /** Hears everything, also what came before: that not before the caller is done. */
  listen(listener: HostListener): void {
    this.#listener = listener;
    process.nextTick(() => {
      const early = this.#early;
      this.#early = [];
      for (const tell of early) tell(listener);
    });
  }

  tell(tell: (listener: HostListener) => void): void {
    if (this.#listener !== undefined && this.#early.length === 0) tell(this.#listener);
    else this.#early.push(tell);
  }
}
