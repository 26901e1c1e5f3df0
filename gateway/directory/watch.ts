/** Keeps the directory's stream open, with jittered backoff. */
import type { ClientReadableStream, Metadata } from '@grpc/grpc-js';

import type { ControlServiceClient, DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { ENDED_BY_SCHEDULER, readClientStream } from '../../lib/stream-guard.ts';
import { backoffMs } from '../../lib/backoff.ts';
import type { Log } from '../log.ts';
import type { Directory } from './directory.ts';
import { ReadInBackground } from './read-in-background.ts';

export interface DirectoryWatchOptions {
  readonly client: ControlServiceClient;
  readonly metadata: Metadata;
  readonly directory: Directory;
  /** The cell whose part of the directory it keeps. */
  readonly cell: string;
  readonly log: Log;
}

export class DirectoryWatch extends ReadInBackground {
  readonly #client: ControlServiceClient;
  readonly #metadata: Metadata;
  readonly #directory: Directory;
  readonly #cell: string;
  readonly #log: Log;
  #call: ClientReadableStream<DirectoryUpdate> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #attempt = 0;
  #closed = false;
  #lastFailure = '';
  /** The stream is connected: what the directory does not hold was unknown to the scheduler a moment ago. */
  current = false;

  constructor({ client, metadata, directory, cell, log }: DirectoryWatchOptions) {
    super();
    this.#client = client;
    this.#metadata = metadata;
    this.#directory = directory;
    this.#cell = cell;
    this.#log = log;
    this.#open();
  }

  close(): void {
    this.#closed = true;
    this.endReads();
    if (this.#timer !== null) clearTimeout(this.#timer);
    const call = this.#call;
    this.#call = null;
    call?.cancel();
  }

  #open(): void {
    this.#timer = null;
    const call = this.#client.watchDirectory({}, this.#metadata);
    this.#call = call;
    readClientStream<DirectoryUpdate>(call, { name: 'ControlService.WatchDirectory', log: this.#log }, (update) => {
      if (this.#call !== call) return;
      this.#directory.apply(update, this.#cell);
      this.#attempt = 0;
      this.#lastFailure = '';
      this.wasRead();
      this.current = true;
    });
    call.on('error', (error: Error) => {
      this.#broken(call, fromServiceError(error).message);
    });
    call.on('end', () => {
      this.#broken(call, ENDED_BY_SCHEDULER);
    });
  }

  #broken(call: ClientReadableStream<DirectoryUpdate>, reason: string): void {
    if (this.#call !== call || this.#closed) return;
    this.#call = null;
    this.current = false;
    if (reason !== this.#lastFailure) this.#log.warn({ reason }, 'directory stream ended; reconnecting');
    this.#lastFailure = reason;
    this.#timer = setTimeout(() => {
      this.#open();
    }, backoffMs(this.#attempt));
    this.#attempt += 1;
  }
}
