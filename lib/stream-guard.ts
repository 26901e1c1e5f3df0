/**
 * Reads the messages of gRPC streams. A message is handled inside the data event of its stream, where an exception
 * would end the process: this module ends only that stream and logs a line. Every stream of every part is read through
 * this file; test/architecture enforces that.
 */
import type { ClientReadableStream } from '@grpc/grpc-js';

import { CapstanError } from './errors.ts';
import { toStatus } from './grpc-errors.ts';

/** Why a client's stream is over, where the other side ended it without an error. */
export const ENDED_BY_SCHEDULER = 'ended by the scheduler';

export interface GuardLog {
  info(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

export interface GuardedStream {
  /** Service and method, for the log. */
  readonly name: string;
  readonly log: GuardLog;
  /** The peer, for the log. */
  readonly facts?: object;
}

interface ServerSide {
  on(event: string, listener: (...values: never[]) => void): unknown;
  emit(event: 'error', status: unknown): boolean;
  end(): unknown;
}

export interface ServerStreamHandlers<Message> {
  /** If it throws a CapstanError, that is the stream's status. */
  readonly onMessage: (message: Message) => void;
  /** Called once, however the stream ended. */
  readonly onClosed: () => void;
}

/** Reads the messages of a client's stream, on the server. */
export function readServerStream<Message>(call: ServerSide, stream: GuardedStream, handlers: ServerStreamHandlers<Message>): void {
  let isOpen = true;
  const closed = (): void => {
    if (!isOpen) return;
    isOpen = false;
    try {
      handlers.onClosed();
    } catch (error) {
      report(stream, error);
    }
  };
  call.on('data', (message: Message) => {
    if (!isOpen) return;
    try {
      handlers.onMessage(message);
    } catch (error) {
      report(stream, error);
      call.emit('error', toStatus(error));
      closed();
    }
  });
  call.on('end', () => {
    closed();
    call.end();
  });
  call.on('cancelled', closed);
  call.on('error', closed);
  call.on('close', closed);
}

/**
 * Reads the messages of a server's stream, on the client. The stream is cancelled when a message cannot be handled: its
 * error and status events follow.
 */
export function readClientStream<Message>(
  call: ClientReadableStream<Message>,
  stream: GuardedStream,
  onMessage: (message: Message) => void,
): void {
  let isOpen = true;
  call.on('data', (message: Message) => {
    if (!isOpen) return;
    try {
      onMessage(message);
    } catch (error) {
      isOpen = false;
      report(stream, error);
      call.cancel();
    }
  });
}

/** Handles one item of a message; an exception affects only that item. */
export function handleItem(stream: GuardedStream, handle: () => void, onFault?: (error: unknown) => void): void {
  try {
    handle();
  } catch (error) {
    report(stream, error);
    onFault?.(error);
  }
}

function report({ name, log, facts }: GuardedStream, error: unknown): void {
  if (error instanceof CapstanError) log.info({ ...facts, stream: name, code: error.code, reason: error.message }, 'stream rejected');
  else log.error({ ...facts, stream: name, err: error }, 'stream message failed');
}
