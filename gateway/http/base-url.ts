/** The base URL of the HTTP API as callers know it. */
import type { FastifyRequest } from 'fastify';

import type { GatewayConfig } from '../config.ts';

/** The configured one; without it the one this caller used. */
export function baseUrl(request: FastifyRequest, config: GatewayConfig): string {
  if (config.publicUrl !== '') return config.publicUrl.replace(/\/+$/, '');
  return `${request.protocol}://${request.headers.host ?? request.hostname}`;
}
