/** What every route of the queue API has in common: how bodies are read and validated, and how errors are sent. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { methodNotAllowed } from '../../lib/http-messages.ts';
import { parseBody } from '../json/body.ts';
import type { AllowedMethods } from './methods.ts';
import { sendProblem, toCapstanError } from './problem.ts';
import { readBody } from './request-body.ts';
import { decidedBy } from './schemas.ts';
import { idsOf, type JobServices } from './services.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The routes, by path and method. */
    served: AllowedMethods;
  }
}

export const MAX_PARAM_LENGTH = 512;

/** Installs the body parser and the validation. To be called before routes are added. */
export function installParsers(app: FastifyInstance, services: JobServices): void {
  app.decorateRequest('rawBody', null);
  app.decorateRequest('reservation', null);
  app.decorateRequest('newJobId', null);
  app.decorateRequest('keyId', '');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request, payload, done) => {
    readBody(request, payload, services, (error, bytes) => {
      if (error !== null) {
        done(error);
        return;
      }
      request.rawBody = bytes;
      request.bodyBytes = bytes.length;
      // An error is passed on as the body and reported by the validation: reporting it here would end the connection.
      done(null, bytes.length === 0 || request.routeOptions.config.rawBodyOnly === true ? undefined : parseBody(bytes));
    });
  });
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => {
    // Header schemas are for the OpenAPI document; handlers check the headers themselves.
    if (httpPart === 'headers') return () => true;
    return validator(schema, httpPart);
  });
  // Responses are written by hand; response schemas are for the OpenAPI document.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
}

/** Validates by the schema, unless the parser or the router has decided already. */
function validator(schema: z.ZodType, httpPart: string | undefined): (data: unknown) => boolean | { value: unknown } | { error: Error } {
  const isDecided = decidedBy(schema);
  return (data) => {
    if (data instanceof CapstanError) return { error: data };
    if (isDecided?.(data) === true) return true;
    const result = schema.safeParse(data);
    return result.success ? { value: result.data } : { error: validationError(result.error, httpPart) };
  };
}

/** Sends any error as a problem document. Internal errors are logged. */
export function errorHandler(log: JobServices['log']): (thrown: FastifyError, request: FastifyRequest, reply: FastifyReply) => void {
  return (thrown, request, reply) => {
    const error = toCapstanError(thrown);
    if (error.code === 'INTERNAL') {
      log.error(
        { ...idsOf(request), method: request.method, route: request.routeOptions.url, err: error.cause ?? error },
        'request failed',
      );
    }
    sendProblem(reply, error);
  };
}

/** Collects the routes in `methods`, and responds to requests without one. To be called before routes are added. */
export function installRouting(app: FastifyInstance, methods: AllowedMethods): void {
  app.decorate('served', methods);
  app.addHook('onRoute', (route) => {
    methods.add(route.url, route.method);
  });
  app.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config?.cacheable !== true) reply.header('cache-control', 'no-store');
    if (request.is404) {
      notFound(request, reply, methods);
    } else {
      done();
    }
  });
  app.setNotFoundHandler((request, reply) => {
    notFound(request, reply, methods);
  });
}

function notFound(request: FastifyRequest, reply: FastifyReply, methods: AllowedMethods): void {
  const allowed = methods.of(request.url);
  if (allowed === null) {
    sendProblem(reply, new CapstanError('NOT_FOUND', 'no such route; see /docs'));
  } else if (request.method === 'OPTIONS') {
    reply.code(204).header('allow', allowed).send();
  } else {
    const error = new CapstanError('METHOD_NOT_ALLOWED', methodNotAllowed(request.method, allowed));
    sendProblem(reply, error, { allow: allowed });
  }
}

function validationError(error: z.ZodError, part: string | undefined): CapstanError {
  const issue = error.issues[0];
  const path = issue?.path.join('.') ?? '';
  const field = path === '' ? (part ?? 'body') : path;
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${issue?.message ?? 'is not valid'}`, { field });
}
