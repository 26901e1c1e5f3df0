/** The tool's side of the gateway: GraphQL for the control plane, PUT for builds. All it needs is the HTTP address and a key. */
import { Readable } from 'node:stream';

import { request } from 'undici';

import { CapstanError, errorTable, isErrorCode, type ErrorCode } from '../../proto/errors.ts';
import { ToolError } from '../terminal/tool-error.ts';

const CALL_MS = 30_000;
/** Time a store may take for the bytes it was sent, ms. */
const UPLOAD_MS = 300_000;

export interface BuildUpload {
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  /** Frames or larger pieces, opened anew for every try. */
  readonly open: () => AsyncIterable<Buffer>;
  /** Told the bytes sent so far. */
  readonly progress?: (sent: number) => void;
}

export interface GatewayClient {
  /** Base URL. */
  readonly address: string;
  /** Runs a query; its data. Throws CapstanError with the code of its first error. */
  query<T>(text: string, variables?: Readonly<Record<string, unknown>>): Promise<T>;
  /** True when the build was there already. One try. */
  putBuild(build: BuildUpload): Promise<boolean>;
}

interface GraphqlProblem {
  readonly message: string;
  readonly extensions?: { readonly code?: string; readonly field?: string; readonly retryAfterMs?: number };
}

export function connectGateway(address: string, key: string): GatewayClient {
  const authorization = `Bearer ${key}`;

  async function call(...[path, options]: Parameters<typeof request>): Promise<{ readonly status: number; readonly text: string }> {
    try {
      const { statusCode, body } = await request(path, options);
      return { status: statusCode, text: await body.text() };
    } catch (cause) {
      const hint = 'Start it with: capstan up (or name another with --url <base URL>).';
      throw new ToolError('UNAVAILABLE', `the gateway at ${address} does not answer`, hint, { cause });
    }
  }

  return {
    address,
    async query<T>(query: string, variables: Readonly<Record<string, unknown>> = {}): Promise<T> {
      const { status, text } = await call(`${address}/graphql`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ query, variables }),
        headersTimeout: CALL_MS,
      });
      const { data, errors = [] } = answerOf(address, status, text) as { data?: T | null; errors?: GraphqlProblem[] };
      const [first] = errors;
      if (first !== undefined) throw problemOf(address, first);
      if (data === null || data === undefined) throw notAGateway(address, status);
      return data;
    },
    async putBuild({ digest, size, open, progress }) {
      const url = `${address}/builds/${digest}`;
      const known = await call(url, { method: 'HEAD', headers: { authorization }, headersTimeout: CALL_MS });
      if (known.status === 200) return true;
      const { status, text } = await call(url, {
        method: 'PUT',
        headers: { authorization, 'content-type': 'application/gzip', 'content-length': String(size) },
        body: Readable.from(counted(open(), progress)),
        headersTimeout: UPLOAD_MS,
      });
      const answer = answerOf(address, status, text) as { existed?: boolean; detail?: string };
      if (status === 200 || status === 201) return answer.existed === true;
      throw refusal(address, codeOf(status), answer.detail ?? `the upload was answered ${status}`, undefined);
    },
  };
}

async function* counted(source: AsyncIterable<Buffer>, progress: ((sent: number) => void) | undefined): AsyncGenerator<Buffer> {
  let sent = 0;
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
    // Something else answers there: said below.
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
  return new ToolError(code, `the gateway at ${address} refused the API key: ${message}`, hint, details);
}

function codeOf(status: number): ErrorCode {
  const code = Object.entries(errorTable).find(([, entry]) => entry.http === status)?.[0];
  return code !== undefined && isErrorCode(code) ? code : 'INTERNAL';
}

function notAGateway(address: string, status: number): CapstanError {
  const why = `${address} answered ${status} with something that is no answer of a Capstan gateway`;
  return new ToolError('UNAVAILABLE', why, 'Check the address given with --url or capstan login.');
}
