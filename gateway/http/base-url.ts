/** The base URL of the HTTP API as callers use it. */
import type { FastifyRequest } from 'fastify';

import type { GatewayConfig } from '../config.ts';
import { originOf, type TrustedProxies } from './forwarded.ts';

/** Returns the configured URL, else the one that this caller used. */
export function baseUrl(request: FastifyRequest, config: GatewayConfig, proxies: TrustedProxies): string {
  if (config.publicUrl !== '') return config.publicUrl.replace(/\/+$/, '');
  const { scheme, authority } = originOf(request.raw, proxies);
  return `${scheme}://${authority === '' ? request.hostname : authority}`;
}
