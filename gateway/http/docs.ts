/** The OpenAPI document and its page, all served from here: the page may load nothing from another host. */
import swagger from '@fastify/swagger';
import scalar from '@scalar/fastify-api-reference';
import type { FastifyInstance } from 'fastify';
import { createJsonSchemaTransform } from 'fastify-type-provider-zod';

import { JSON_TYPE } from './problem.ts';

/** The browser itself holds the page to this host. */
const POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'none'";

/** To be awaited before routes are added: they are collected as they come. */
export async function docsRoutes(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Capstan',
        version,
        description:
          'Queue-based endpoints: jobs go in by HTTP, run on a worker, and their results come back. Every error is a problem document.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'Queue', description: 'Jobs of queue-based endpoints.' },
        { name: 'OpenAI', description: 'OpenAI’s API, answered by a queue-based endpoint’s handler.' },
        { name: 'Service', description: 'The gateway itself; no key needed.' },
      ],
      components: {
        securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'The API key.' } },
      },
    },
    transform: createJsonSchemaTransform({}),
  });

  let text: string | null = null;
  app.route({
    method: 'GET',
    url: '/openapi.json',
    schema: { hide: true },
    handler(_request, reply) {
      text ??= JSON.stringify(app.swagger());
      reply.header('content-type', JSON_TYPE).send(text);
    },
  });

  // In a scope of its own: the page's headers are no business of the other routes.
  await app.register(async (scope) => {
    scope.addHook('onSend', (_request, reply, _payload, done) => {
      reply.header('content-security-policy', POLICY);
      done();
    });
    await scope.register(scalar, {
      routePrefix: '/docs',
      configuration: {
        url: '/openapi.json',
        pageTitle: 'Capstan API',
        withDefaultFonts: false,
        telemetry: false,
        hideClientButton: true,
        showDeveloperTools: 'never',
        // Both would send the reader to services of the page's maker.
        agent: { disabled: true },
        mcp: { disabled: true },
      },
    });
  });
}
