/**
 * The tool's client of the gateway: GraphQL for the control plane, PATCH for the parts of builds. It needs only the
 * HTTP address and a key.
 */
import { text as textOf } from 'node:stream/consumers';

import { CapstanError, codeOfStatus, isErrorCode, type ErrorCode } from '../lib/errors.ts';
import { isErrno } from '../lib/to-error.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { certificateProblem } from './certificate-trust.ts';
import { explainUnknownName } from './gateway-version.ts';
import type { Operation } from './graphql/gen/operations.ts';
import { callHttp, openHttp, type HttpReply, type HttpRequest } from './http-call.ts';

const CALL_MS = 30_000;
/** Time limit for the gateway to store the bytes it received, ms. */
const UPLOAD_MS = 300_000;
/** Bytes of one request of an upload: on a slow connection each request has the gateway's time limit (120 s). */
const PART_BYTES = 16_000_000;

export interface BuildUpload {
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  /** Reads the bytes from `start` up to `end`. */
  readonly read: (start: number, end: number) => AsyncIterable<Buffer>;
  /** Receives the number of bytes stored so far. */
  readonly progress?: (sent: number) => void;
}

export interface GatewayClient {
  /** Base URL. */
  readonly address: string;
  /** Runs an operation and returns its data. Throws CapstanError with the code of its first error. */
  query<Result, Variables>(operation: Operation<Result, Variables>, variables: Variables, signal?: AbortSignal): Promise<Result>;
  /**
   * Returns true when the build was stored before. Makes one attempt, which continues an earlier interrupted upload.
   */
  putBuild(build: BuildUpload): Promise<boolean>;
  /** Downloads a build. Throws CapstanError NOT_FOUND when it is not stored. */
  getBuild(digest: string): AsyncGenerator<Buffer, void>;
}

interface GraphqlProblem {
  readonly message: string;
  readonly extensions?: { readonly code?: string; readonly field?: string; readonly retryAfterMs?: number };
}

/** The connection was established and then reset. */
function brokeOff(cause: unknown): boolean {
  return isErrno(cause, 'ECONNRESET', 'EPIPE');
}

export function connectGateway(address: string, key: string): GatewayClient {
  const authorization = `Bearer ${key}`;

  const call = (url: string, request: HttpRequest): Promise<HttpReply> => reached(() => callHttp(url, request));

  async function reached<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      const hint = 'Start it with: capstan up (or use another gateway with --url <base URL>).';
      const what = brokeOff(cause) ? `the connection to the gateway at ${address} was lost` : `the gateway at ${address} does not respond`;
      throw certificateProblem(address, cause) ?? new ToolError('UNAVAILABLE', what, hint, { cause });
    }
  }

  return {
    address,
    async query<Result, Variables>(query: Operation<Result, Variables>, variables: Variables, signal?: AbortSignal): Promise<Result> {
      const { status, text } = await call(`${address}/graphql`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ query, variables }),
        idleMs: CALL_MS,
        signal,
      });
      const { data, errors = [] } = answerOf(address, status, text) as { data?: Result | null; errors?: GraphqlProblem[] };
      const [first] = errors;
      if (first !== undefined) throw await explainUnknownName(address, problemOf(address, first));
      if (data === null || data === undefined) throw notAGateway(address, status);
      return data;
    },
    async *getBuild(digest) {
      const url = `${address}/builds/${digest}/content`;
      const answer = await reached(() => openHttp(url, { method: 'GET', headers: { authorization }, idleMs: CALL_MS }));
      if (answer.statusCode === 200) {
        yield* answer as AsyncIterable<Buffer>;
        return;
      }
      const status = answer.statusCode ?? 0;
      const { detail } = answerOf(address, status, await textOf(answer)) as { detail?: string };
      throw refusal(address, codeOfStatus(status), detail ?? `the download failed with status ${status}`, undefined);
    },
    async putBuild({ digest, size, read, progress }) {
      const url = `${address}/builds/${digest}`;
      const known = await call(url, { method: 'HEAD', headers: { authorization }, idleMs: CALL_MS });
      if (known.status === 200) return true;
      for (let offset = offsetOf(known) ?? 0; ;) {
        const end = Math.min(size, offset + PART_BYTES);
        const part = await call(url, {
          method: 'PATCH',
          headers: {
            authorization,
            'content-type': 'application/octet-stream',
            'content-length': String(end - offset),
            'upload-offset': String(offset),
            'upload-length': String(size),
          },
          body: counted(offset === end ? nothing() : read(offset, end), offset, progress),
          idleMs: UPLOAD_MS,
        });
        const answer = answerOf(address, part.status, part.text) as { existed?: boolean; received?: number; detail?: string };
        if (part.status !== 200 && part.status !== 201) throw uploadRefusal(address, part, answer.detail);
        if (answer.existed !== undefined) return answer.existed;
        offset = answer.received ?? end;
      }
    },
  };
}

/** Returns the stored offset; undefined when the response is not a gateway's. */
function offsetOf({ headers }: HttpReply): number | undefined {
  const given = headers['upload-offset'];
  return typeof given === 'string' ? Number(given) : undefined;
}

/** A conflict: another client sent a part of the same build meanwhile, and the next attempt continues from there. */
function uploadRefusal(address: string, { status, headers }: HttpReply, detail: string | undefined): CapstanError {
  const given = headers['capstan-error'];
  const code = typeof given === 'string' && isErrorCode(given) ? given : codeOfStatus(status);
  return refusal(address, code === 'CONFLICT' ? 'UNAVAILABLE' : code, detail ?? `the upload failed with status ${status}`, undefined);
}

async function* nothing(): AsyncGenerator<Buffer> {}

async function* counted(
  source: AsyncIterable<Buffer>,
  start: number,
  progress: ((sent: number) => void) | undefined,
): AsyncGenerator<Buffer> {
  let sent = start;
  for await (const piece of source) {
    yield piece;
    sent += piece.length;
    progress?.(sent);
  }
}

function answerOf(address: string, status: number, text: string): object {
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer === 'object' && answer !== null) return answer;
  } catch {
    // Another program answers at this address; the error below says so.
  }
  throw notAGateway(address, status);
}

function problemOf(address: string, { message, extensions }: GraphqlProblem): CapstanError {
  const code = extensions?.code ?? '';
  return refusal(address, isErrorCode(code) ? code : 'INTERNAL', message, extensions?.field);
}

function refusal(address: string, code: ErrorCode, message: string, field: string | undefined): CapstanError {
  const details = field === undefined ? {} : { field };
  if (code !== 'UNAUTHENTICATED') return new CapstanError(code, message, details);
  const hint = 'Set SERVICE_API_KEY to a valid key, or log in again with: capstan login';
  return new ToolError(code, `the gateway at ${address} rejected the API key: ${message}`, hint, details);
}

function notAGateway(address: string, status: number): CapstanError {
  const why = `${address} responded with status ${status}, but not like a Capstan gateway`;
  return new ToolError('UNAVAILABLE', why, 'Check the URL in --url or of capstan login.');
}
