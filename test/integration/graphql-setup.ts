/** A gateway with a scheduler, called over GraphQL and HTTP. */
import { createHash } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { EndpointSpec } from '../../proto/gen/json/capstan/v1/control.ts';
import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { endpointSpec, TestScheduler } from '../support/scheduler-client.ts';

export interface Problem {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly extensions: { readonly code: string; readonly field?: string; readonly status: number };
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly data: Record<string, unknown>;
  readonly errors: readonly Problem[];
}

interface Setup {
  readonly scheduler: TestScheduler;
  readonly url: string;
  readonly key: string;
  readonly ask: (query: string, variables?: object, key?: string | null) => Promise<Reply>;
  readonly put: (bytes: Buffer, options?: { digest?: string; key?: string }) => Promise<Response>;
}

export const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export async function setup(
  t: ExecutionContext,
  settings: Record<string, unknown> = {},
  gatewaySettings: Record<string, unknown> = {},
): Promise<Setup> {
  const scheduler = await TestScheduler.open(settings);
  t.teardown(() => scheduler.close());
  const own = {
    port: 0,
    scheduler: scheduler.handle.address,
    token: scheduler.secret('gateway-token'),
    logLevel: 'silent',
    closeGraceMs: 0,
  };
  const gateway = await start(readConfig({ ...own, ...gatewaySettings }, {}));
  t.teardown(() => gateway.close());
  const key = scheduler.secret('api-key');
  // Answered 503 until the directory was read.
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers: { authorization: key } })).status === 503);
  return {
    scheduler,
    url: gateway.url,
    key,
    async ask(query, variables = {}, asKey = key) {
      const response = await fetch(`${gateway.url}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(asKey === null ? {} : { authorization: `Bearer ${asKey}` }) },
        body: JSON.stringify({ query, variables }),
      });
      const { data, errors } = (await response.json()) as { data?: Record<string, unknown>; errors?: Problem[] };
      return { status: response.status, headers: response.headers, data: data ?? {}, errors: errors ?? [] };
    },
    put: (bytes, { digest = digestOf(bytes), key: asKey = key } = {}) =>
      fetch(`${gateway.url}/builds/${digest}`, {
        method: 'PUT',
        body: new Uint8Array(bytes),
        headers: { authorization: `Bearer ${asKey}` },
      }),
  };
}

/** The one code that a field was refused with. */
export function code({ errors }: Reply): string | undefined {
  return errors[0]?.extensions.code;
}

export const DEPLOY_QUERY = `mutation ($environment: String, $build: String!, $endpoints: [EndpointSpec!]!) {
  deploy(environment: $environment, build: $build, endpoints: $endpoints) { environment endpoints { id name created url build { digest } } }
}`;
export const specs = (...names: string[]): unknown[] => names.map((name) => EndpointSpec.toJSON(endpointSpec({ name })));
export const firstId = ({ data }: Reply): string => (data['deploy'] as { endpoints: { id: string }[] }).endpoints[0]?.id ?? '';

export function deeply(levels: number): object {
  let value: object = {};
  for (let level = 0; level < levels; level += 1) value = { a: value };
  return value;
}

export const SKU = { name: 'sku', required: true, type: 'string', schema: '{"enum":["a","b"]}' };
