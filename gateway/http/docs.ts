/** Serves the OpenAPI document and its page. The page may load nothing from another host. */
import swagger from '@fastify/swagger';
import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import type { createJsonSchemaTransform } from 'fastify-type-provider-zod';

import { HIDDEN_FROM_PAGE, UNSENT_EXAMPLE } from '../../lib/parameter-schemas.ts';
import { REFERENCE_SETTINGS, referenceScript } from '../../lib/reference-script.ts';
import { docsPage } from './docs-page.ts';
import { JSON_TYPE } from './problem.ts';

/** The Content-Security-Policy restricts a page to this host. `scripts`, `connections`: where its scripts come from, and what they may call. */
export function pagePolicy(scripts: string, connections = "'self'"): string {
  return `default-src 'none'; script-src ${scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src ${connections}; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'none'`;
}

interface Shape {
  readonly type?: string;
  readonly anyOf?: readonly Shape[];
}

interface Operation {
  readonly responses?: Readonly<Record<string, { content?: Record<string, { schema?: { contentMediaType?: string } }> }>>;
  readonly requestBody?: { required?: boolean; readonly content: Readonly<Record<string, { schema: Shape; example?: object }>> };
  readonly parameters?: {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: { readonly default?: unknown };
    example?: string;
    examples?: object;
  }[];
}

/** Must be awaited before routes are added, because routes are collected when they are added. */
export async function docsRoutes(app: FastifyInstance, version: string): Promise<void> {
  let transform: ReturnType<typeof createJsonSchemaTransform> | undefined;
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Capstan',
        version,
        description:
          'Queue-based endpoints: jobs are submitted over HTTP, run on workers, and keep their results for retrieval. Every error is a problem document. The routes of a load-balanced endpoint are described at `/lb/{endpoint}/docs`.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'Queue', description: 'Jobs of queue-based endpoints.' },
        { name: 'OpenAI', description: 'The OpenAI API, served by the handler of a queue-based endpoint.' },
        { name: 'Control', description: 'The control plane: GraphQL, and uploads of builds.' },
        { name: 'Service', description: 'The gateway itself; no key required.' },
      ],
      components: {
        securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'The API key.' } },
      },
    },
    transform: (route) => {
      if (transform === undefined) throw new Error('the OpenAPI document was requested before its transform was set');
      return transform(route);
    },
    transformObject: (document) => ('openapiObject' in document ? corrected(document.openapiObject) : document.swaggerObject),
  });

  let text: string | null = null;
  app.route({
    method: 'GET',
    url: '/openapi.json',
    schema: { hide: true },
    config: { cacheable: true },
    async handler(_request, reply) {
      transform ??= (await import('fastify-type-provider-zod')).createJsonSchemaTransform({});
      text ??= JSON.stringify(app.swagger());
      return reply.header('content-type', JSON_TYPE).send(text);
    },
  });

  const { html, scriptHash } = docsPage(REFERENCE_SETTINGS);
  const policy = pagePolicy(`'self' '${scriptHash}'`);
  const send: Readonly<Record<string, RouteHandlerMethod>> = {
    '/docs'(request, reply) {
      // Relative: only the browser knows the path under which a proxy serves the gateway.
      if (!/^\/docs\/(\?|$)/.test(request.url)) return reply.code(301).header('location', 'docs/').send();
      return reply.headers({ 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy }).send(html);
    },
    async '/docs/js/scalar.js'(request, reply) {
      const { bytes, headers } = await referenceScript(request.headers['accept-encoding']);
      return reply.headers(headers).send(bytes);
    },
  };
  for (const [url, handler] of Object.entries(send))
    app.route({ method: 'GET', url, schema: { hide: true }, config: { cacheable: true }, handler });
}

/** A response whose schema names a media type has that type; the plugin assumes JSON. */
function withOwnType(response: { content?: Record<string, { schema?: { contentMediaType?: string } }> }): void {
  const json = response.content?.['application/json'];
  const type = json?.schema?.contentMediaType;
  if (json !== undefined && type !== undefined) response.content = { [type]: json };
}

/** Operations that do the same as another one of their path have no entry of their own on the page. */
function isSecond(path: string, method: string, operations: object): boolean {
  if (method === 'head') return 'get' in operations;
  if (path.endsWith('/openai/{*}')) return method !== 'get' && method !== 'post';
  return method === 'post' && 'get' in operations;
}

/** Bodies to send as they are, by the end of the path. */
const BODIES: readonly (readonly [RegExp, object])[] = [
  [/\/run(sync)?$/, { input: {} }],
  [/^\/graphql$/, { query: '{ endpoints { id name url } }' }],
  [/\/openai\/\{\*\}$/, { model: 'model', messages: [{ role: 'user', content: 'Hello' }] }],
];
/** Values of path parameters that are the same for every account. */
const PATHS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  get: { '*': 'v1/models' },
  post: { '*': 'v1/chat/completions' },
};

/**
 * Adds examples, and what the plugin does not know: it marks every body as required, but a body whose schema allows null is
 * optional.
 */
function corrected<Document extends { paths?: object }>(document: Document): Document {
  for (const [path, operations] of Object.entries(document.paths ?? {}) as [string, Record<string, Operation>][]) {
    for (const [method, operation] of Object.entries(operations)) {
      if (isSecond(path, method, operations)) Object.assign(operation, HIDDEN_FROM_PAGE);
      for (const parameter of operation.parameters ?? []) {
        const example = PATHS[method]?.[parameter.name];
        if (example !== undefined) parameter.example = example;
        if (parameter.in !== 'path' && parameter.required !== true && parameter.schema?.default === undefined)
          parameter.examples = UNSENT_EXAMPLE;
      }
      const { requestBody, responses } = operation;
      const body = BODIES.find(([end]) => end.test(path))?.[1];
      const json = requestBody?.content['application/json'];
      if (body !== undefined && json !== undefined) json.example = body;
      for (const response of Object.values(responses ?? {})) withOwnType(response);
      const media = requestBody?.content['application/json'];
      const shapes = media?.schema.anyOf?.filter(({ type }) => type !== 'null');
      if (requestBody === undefined || media === undefined || shapes?.length !== 1 || shapes[0] === undefined) continue;
      requestBody.required = false;
      media.schema = shapes[0];
    }
  }
  return document;
}
