/**
 * Prints the samples that serve after `npm start`: one job of a queue endpoint with its result, and the routes of the
 * others.
 */
import { Endpoint } from '../../sdk/typescript/endpoint.ts';
import { CapstanError as SdkError, TimeoutError } from '../../sdk/typescript/errors.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import type { Settings } from '../../terminal/config.ts';
import { curlFor } from '../deploy/report.ts';
import { apiKey, ownSettings } from '../../client/local.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { ToolError } from '../../terminal/tool-error.ts';

/** The input of that job, and another for the reader to try, which shows how characters are counted. */
const FIRST_TEXT = 'Capstan runs your functions on your own hosts. Does it work? It does!';
const NEXT_TEXT = '😀 hi!';
const LONGEST_WAIT_MS = 60_000;

export interface FirstJobOptions {
  readonly settings: Settings;
  /** Base URL of the gateway. */
  readonly url: string;
  /** Shell expression of the API key. */
  readonly key: string;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Runs one job and prints its result. @throws CapstanError when it fails or does not end within a minute. */
export async function showFirstJob(row: EndpointRow, { settings, url, key, terminal, signal }: FirstJobOptions): Promise<void> {
  terminal.step(`running one job on ${row.name}`);
  const endpoint = new Endpoint(row.id, { apiKey: apiKey(ownSettings(settings)), baseUrl: url });
  const why = (job: string) => `To see why: capstan jobs ${job === '' ? `list ${row.name}` : `get ${row.name} ${job}`}`;
  const refuse = (cause: unknown, job = ''): never => {
    if (!(cause instanceof SdkError)) throw cause;
    throw new ToolError(cause instanceof TimeoutError ? 'DEADLINE_EXCEEDED' : 'UNAVAILABLE', cause.message, why(job), { cause });
  };
  const job = await endpoint.run({ text: FIRST_TEXT }, { signal }).catch((cause: unknown) => refuse(cause));
  const result = await job.wait({ signal, timeoutMs: LONGEST_WAIT_MS }).catch((cause: unknown) => refuse(cause, job.id));
  terminal.data(JSON.stringify(result, null, 2));
  if (result.status !== 'COMPLETED')
    throw new ToolError('INTERNAL', `the job ended ${result.status}: ${result.error ?? 'no error message'}`, why(job.id));
  terminal.done(`${row.name} serves at ${row.url}`);
  terminal.next(curlFor(row.url, { text: NEXT_TEXT }, key));
}

/** Prints the routes of load-balanced endpoints, and a call of one. `lbDomain` is the domain of their hosts. */
export function showRoutes(rows: readonly EndpointRow[], lbDomain: string, { url, key, terminal }: FirstJobOptions): void {
  const { protocol, port } = new URL(url);
  const at = port === '' ? lbDomain : `${lbDomain}:${port}`;
  for (const { id, name, routes } of rows) terminal.done(`${name} serves ${Object.keys(routes).join(', ')} at ${protocol}//${id}.${at}`);
  const first = rows.find(({ routes }) => Object.hasOwn(routes, 'GET /health'));
  if (first !== undefined) terminal.next(`curl -s ${url}/lb/${first.id}/health -H "Authorization: Bearer ${key}"`);
}
