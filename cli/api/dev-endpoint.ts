/** Finds an endpoint of a development server, for commands that call endpoints by name. */
import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import type { Settings } from '../../terminal/config.ts';
import { readDevRunFile } from '../../devserver/dev-run-file.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { callHttp } from '../../client/http-call.ts';

const IDLE_MS = 5_000;
const LOOPBACK = /^https?:\/\/([^/:]+\.)?(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:|\/|$)/i;

const listSchema = z.object({
  development: z.literal(true),
  endpoints: z.array(z.object({ name: z.string(), kind: z.enum(['queue', 'load-balanced']) })),
});

export interface DevEndpoint {
  readonly name: string;
  /** Base URL of the server. */
  readonly url: string;
}

/**
 * Returns the endpoint when a development server has it: the one at the given address, or without an address the one that
 * serves the folder. Null when the command is for a deployed endpoint.
 * @throws CapstanError NOT_FOUND, INVALID_ARGUMENT for an endpoint without a queue, when the address is such a server's.
 */
export async function findDevEndpoint(
  settings: Pick<Settings, 'url' | 'httpPort'>,
  folder: string,
  name: string,
): Promise<DevEndpoint | null> {
  const given = settings.url?.replace(/\/+$/, '');
  if (given === undefined && settings.httpPort !== undefined) return null;
  const url = given ?? readDevRunFile(folder)?.url;
  if (url === undefined || !LOOPBACK.test(url)) return null;
  const list = await listOf(url);
  if (list === null) return null;
  const found = list.find((each) => each.name === name);
  if (found === undefined) {
    if (given === undefined) return null;
    const names = list.map((each) => each.name).join(', ');
    throw new ToolError('NOT_FOUND', `endpoint ${name} not found on the development server`, `It serves: ${names}`, { field: 'endpoint' });
  }
  if (found.kind === 'queue') return { name, url };
  throw new CapstanError('INVALID_ARGUMENT', `endpoint: ${name} is load-balanced and does not take jobs; call it at ${url}/lb/${name}/`, {
    field: 'endpoint',
  });
}

/** Null for anything other than a development server. */
async function listOf(url: string): Promise<z.output<typeof listSchema>['endpoints'] | null> {
  try {
    const { status, text } = await callHttp(`${url}/`, { method: 'GET', headers: { accept: 'application/json' }, idleMs: IDLE_MS });
    const answer = status === 200 ? listSchema.safeParse(JSON.parse(text)) : undefined;
    return answer?.success === true ? answer.data.endpoints : null;
  } catch {
    return null; // nothing answers, or not with JSON: the command reports it as for a gateway
  }
}
