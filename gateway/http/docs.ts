/** Serves the OpenAPI document and its page. The page may load nothing from another host. */
import swagger from '@fastify/swagger';
import fastify, { type FastifyInstance } from 'fastify';
import type { createJsonSchemaTransform } from 'fastify-type-provider-zod';

import { JSON_TYPE } from './problem.ts';

/** The Content-Security-Policy restricts a page to this host. `scripts`, `connections`: where its scripts come from, and what they may call. */
export function pagePolicy(scripts: string, connections = "'self'"): string {
  return `default-src 'none'; script-src ${scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src ${connections}; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'none'`;
}

/** Settings of every reference page: no links to services of the page's vendor. */
export const REFERENCE_SETTINGS = {
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  defaultOpenAllTags: true,
} as const;

/** Headers that are set regardless of the response. */
const OF_THE_CONNECTION: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date']);

interface Shape {
  readonly type?: string;
  readonly anyOf?: readonly Shape[];
}

interface Operation {
  readonly responses?: Readonly<Record<string, { content?: Record<string, { schema?: { contentMediaType?: string } }> }>>;
  readonly requestBody?: { required?: boolean; readonly content: Readonly<Record<string, { schema: Shape }>> };
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

  let page: Promise<FastifyInstance> | undefined;
  for (const url of ['/docs', '/docs/js/scalar.js']) {
    app.route({
      method: 'GET',
      url,
      schema: { hide: true },
      config: { cacheable: true },
      async handler(request, reply) {
        const { statusCode, headers, rawPayload } = await (await (page ??= makePage())).inject({ method: 'GET', url: request.url });
        // What belongs to the connection is this connection's own.
        const own = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
        return reply.code(statusCode).headers(Object.fromEntries(own)).send(rawPayload);
      },
    });
  }
}

/**
 * The page and its script are created at the first request for them: their plugin loads a parser and four megabytes of
 * script, a quarter of the gateway's start-up, and many gateways never serve them.
 */
async function makePage(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const page = fastify({ routerOptions: { ignoreTrailingSlash: true } });
  page.addHook('onSend', (_request, reply, _payload, done) => {
    reply.header('content-security-policy', pagePolicy("'self' 'unsafe-inline'"));
    done();
  });
  await page.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Capstan API',
      // The input for the key is visible at once.
      authentication: { preferredSecurityScheme: 'key' },
      ...REFERENCE_SETTINGS,
    },
  });
  return page;
}

/** A response whose schema names a media type has that type; the plugin assumes JSON. */
function withOwnType(response: { content?: Record<string, { schema?: { contentMediaType?: string } }> }): void {
  const json = response.content?.['application/json'];
  const type = json?.schema?.contentMediaType;
  if (json !== undefined && type !== undefined) response.content = { [type]: json };
}

/** The plugin marks every body as required; a body whose schema allows null is optional. */
function corrected<Document extends { paths?: object }>(document: Document): Document {
  for (const operations of Object.values(document.paths ?? {}) as Record<string, Operation>[]) {
    for (const { requestBody, responses } of Object.values(operations)) {
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
