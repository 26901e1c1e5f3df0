/** Information about the gateway that needs no key: `/`, `/ping`, `/healthz`. */
import type { FastifyInstance } from 'fastify';

import { CapstanError } from '../../../lib/errors.ts';
import { JSON_TYPE, sendProblem } from '../problem.ts';
import { aboutResponse, okAnswer } from '../schemas.ts';
import type { Services } from '../services.ts';
import { answers } from './describe.ts';

export function serviceRoutes(app: FastifyInstance, services: Services): void {
  const about = JSON.stringify({ name: 'capstan', version: services.version, docs: '/docs', openapi: '/openapi.json' });

  app.route({
    method: ['GET', 'HEAD'],
    url: '/',
    schema: { summary: 'About this service', tags: ['Service'], response: answers({ 200: aboutResponse }) },
    handler(_request, reply) {
      reply.header('content-type', JSON_TYPE).send(about);
    },
  });

  app.route({
    method: ['GET', 'HEAD'],
    url: '/ping',
    schema: { summary: 'Check that the gateway is up', tags: ['Service'], response: answers({ 200: okAnswer }) },
    handler(_request, reply) {
      reply.header('content-type', JSON_TYPE).send('{"status":"ok"}');
    },
  });

  app.route({
    method: ['GET', 'HEAD'],
    url: '/healthz',
    schema: { summary: 'Check that the gateway reaches a scheduler', tags: ['Service'], response: answers({ 200: okAnswer }, 503) },
    handler(_request, reply) {
      if (services.cells.connected) reply.header('content-type', JSON_TYPE).send('{"status":"ok"}');
      else sendProblem(reply, new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000 }));
    },
  });
}
