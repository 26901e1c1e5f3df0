/**
 * Maps errors to gRPC and back: an error travels as a status whose metadata has the code, the field and the retry
 * delay; any other status is mapped by its consequence (retryable or not).
 */
import { Metadata, status, type ServiceError, type StatusObject } from '@grpc/grpc-js';

import { INTERNAL_ERROR } from './http-messages.ts';
import { cellOfStatus, nameCell } from './cells.ts';
import { CapstanError, errorTable, isErrorCode, type ErrorCode } from './errors.ts';
import type { Failure } from '../proto/gen/capstan/v1/common.ts';

const CODE_KEY = 'capstan-error';
const FIELD_KEY = 'capstan-field';
const RETRY_KEY = 'capstan-retry-after-ms';
/** With NOT_OWNER: address of the owner. */
const OWNER_KEY = 'capstan-owner';

/** Converts any thrown value to a response status. An unknown error becomes INTERNAL without its text. */
export function toStatus(thrown: unknown): Partial<StatusObject> {
  const error = thrown instanceof CapstanError ? thrown : new CapstanError('INTERNAL', INTERNAL_ERROR);
  const metadata = new Metadata();
  metadata.set(CODE_KEY, error.code);
  if (error.field !== undefined) metadata.set(FIELD_KEY, encodeURIComponent(error.field));
  if (error.retryAfterMs !== undefined) metadata.set(RETRY_KEY, String(error.retryAfterMs));
  if (error.owner !== undefined && /^[\x21-\x7e]+$/.test(error.owner)) metadata.set(OWNER_KEY, error.owner);
  if (error.cell !== undefined) nameCell(metadata, error.cell);
  return { code: errorTable[error.code].grpc, details: error.message, metadata };
}

/** Converts an error of a gRPC client call to the project's error. */
export function fromServiceError(thrown: unknown): CapstanError {
  if (thrown instanceof CapstanError) return thrown;
  if (!isServiceError(thrown)) return new CapstanError('INTERNAL', String(thrown), { cause: thrown });
  const named = first(thrown.metadata, CODE_KEY);
  const code = named !== undefined && isErrorCode(named) ? named : fromGrpcCode(thrown.code);
  const field = first(thrown.metadata, FIELD_KEY);
  const retry = first(thrown.metadata, RETRY_KEY);
  const owner = first(thrown.metadata, OWNER_KEY);
  const cell = cellOfStatus(thrown.metadata);
  return new CapstanError(code, thrown.details || thrown.message, {
    ...(field === undefined ? {} : { field: decodeURIComponent(field) }),
    ...(retry === undefined ? {} : { retryAfterMs: Number(retry) }),
    ...(owner === undefined ? {} : { owner }),
    ...(cell === undefined ? {} : { cell }),
    cause: thrown,
  });
}

/** True when the peer sent one of our codes; otherwise the error comes from the library or from an intermediary. */
export function isNamed(thrown: unknown): boolean {
  return thrown instanceof CapstanError || (isServiceError(thrown) && first(thrown.metadata, CODE_KEY) !== undefined);
}

/** True for an error of a gRPC client call with this status, without one of our codes. */
export function isGrpcStatus(thrown: unknown, code: status): boolean {
  return isServiceError(thrown) && thrown.code === code && !isNamed(thrown);
}

/** Converts an error to a message inside a stream. */
export function toFailure(error: CapstanError): Failure {
  return {
    code: error.code,
    message: error.message,
    field: error.field ?? '',
    retryAfterMs: error.retryAfterMs ?? 0,
    jobId: error.jobId ?? '',
  };
}

/** The reverse of {@link toFailure}. */
export function fromFailure(failure: Failure): CapstanError {
  return new CapstanError(isErrorCode(failure.code) ? failure.code : 'INTERNAL', failure.message, {
    ...(failure.field === '' ? {} : { field: failure.field }),
    ...(failure.retryAfterMs === 0 ? {} : { retryAfterMs: failure.retryAfterMs }),
    ...(failure.jobId === '' ? {} : { jobId: failure.jobId }),
  });
}

function isServiceError(value: unknown): value is ServiceError {
  return value instanceof Error && 'code' in value && typeof value.code === 'number' && 'details' in value;
}

function first(metadata: Metadata | undefined, key: string): string | undefined {
  return metadata?.get(key)[0]?.toString();
}

/** Statuses from a peer without our metadata (the library itself, a proxy between). */
function fromGrpcCode(code: number): ErrorCode {
  switch (code) {
    case status.INVALID_ARGUMENT:
    case status.OUT_OF_RANGE:
      return 'INVALID_ARGUMENT';
    case status.UNAUTHENTICATED:
      return 'UNAUTHENTICATED';
    case status.PERMISSION_DENIED:
      return 'PERMISSION_DENIED';
    case status.NOT_FOUND:
      return 'NOT_FOUND';
    case status.ALREADY_EXISTS:
      return 'ALREADY_EXISTS';
    case status.FAILED_PRECONDITION:
    case status.ABORTED:
      return 'CONFLICT';
    case status.RESOURCE_EXHAUSTED:
      return 'RATE_LIMITED';
    case status.DEADLINE_EXCEEDED:
      return 'DEADLINE_EXCEEDED';
    case status.UNAVAILABLE:
    case status.CANCELLED:
      return 'UNAVAILABLE';
    default:
      return 'INTERNAL';
  }
}
