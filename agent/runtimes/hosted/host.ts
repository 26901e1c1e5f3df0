/** What runs the handlers of one worker, as HostWorker sees it: a process of this host, or one in a container. */
import type { AccountReading } from '../account-reading.ts';
import type { HostListener } from './host-listener.ts';
import type { ProcessScope, ToHost } from '../host-protocol.ts';

export interface Host {
  /** Process whose processor time shows whether it could have obeyed; absent where that is unknown. */
  readonly pid: number | undefined;
  readonly processScope: ProcessScope;
  /** Assigns this host to a worker, which receives all events, also earlier ones. */
  listen(listener: HostListener): void;
  /** From now on the host is read by the reader of its worker's account. */
  readWithin(reading: AccountReading | undefined): void;
  /** Resolves when what the host has written until now was read. */
  catchUp(): Promise<void>;
  /** Frames reach the host in order, including those sent before it was up. */
  send(frame: ToHost, body?: Uint8Array): void;
  /** Takes a task back that its handler has not entered; the host replies as protocol.ts says. `no` as in RunSpec. */
  recall(key: string, no: number): void;
  /** Kills the host and all it started; `why` becomes the detail of its exit. */
  kill(why?: string): void;
  /** The host said what it must not say: reads no more of it and kills it; its listener is told why. */
  refuse(why: string): void;
  /** Asks the host and all it started to end; `why` becomes the detail of its exit. */
  terminate(why: string): void;
}
