/** What runs the handlers of one worker, as HostWorker sees it: a process of this machine, or one in a container. */
import type { HostListener } from './host-listener.ts';
import type { ToHost } from './protocol.ts';

export interface Host {
  /** Process whose share of the processor tells whether it could have obeyed by now; absent where that cannot be seen. */
  readonly pid: number | undefined;
  /** The worker that this host now is; hears everything, also what came before. */
  listen(listener: HostListener): void;
  /** Frames reach the host in order, also those sent before it was there. */
  send(frame: ToHost, body?: Uint8Array): void;
  /** Kills the host and all it started; `why` becomes the detail of its exit. */
  kill(why?: string): void;
  /** Asks the host and all it started to end; `why` becomes the detail of its exit. */
  terminate(why: string): void;
  /** Kills the host when its memory passes the limit, bytes; none for 0. */
  limitMemory(limit: number): void;
}
