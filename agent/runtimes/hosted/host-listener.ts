/** Receives the events of a host, however it was started. */
import type { FromHost } from '../host-protocol.ts';

export interface HostListener {
  /** The handler of this task was entered. May come after the task's end, from the other channel. */
  entered(key: string): void;
  /** The task was taken back: its handler is not entered. */
  returned(key: string): void;
  frame(frame: FromHost, body: Buffer): void;
  /** Whether the body of a frame is wanted; asked before it has arrived. A frame without its body is delivered in any case. */
  accepts(frame: FromHost): boolean;
  line(stream: 'stdout' | 'stderr', text: string): void;
  /** The host said what it must not say; it was killed. */
  violation(why: string): void;
  /** The host reads no more frames and has sent its last one: it is about to exit. */
  closed(): void;
  /** What read it is gone, so that it was killed; another worker of its account may be the cause. */
  unread(): void;
  exited(detail: string): void;
}

/** Tells the listener a line of the second channel (protocol.ts). */
export function tellEntry(listener: HostListener, line: string): void {
  if (line.startsWith('-')) listener.returned(line.slice(1));
  else listener.entered(line);
}

/** A host's events, in order; buffered while it is a spare without a listener. */
export class BufferedListener {
  #listener: HostListener | undefined;
  #early: ((listener: HostListener) => void)[] = [];

  /** Delivers all events, also earlier ones, but none before the caller has returned. */
  listen(listener: HostListener): void {
    this.#listener = listener;
    process.nextTick(() => {
      const early = this.#early;
      this.#early = [];
      for (const tell of early) tell(listener);
    });
  }

  /** A spare has nothing to send a body about. */
  accepts(frame: FromHost): boolean {
    return this.#listener?.accepts(frame) ?? !('key' in frame);
  }

  tell(tell: (listener: HostListener) => void): void {
    if (this.#listener !== undefined && this.#early.length === 0) tell(this.#listener);
    else this.#early.push(tell);
  }
}
