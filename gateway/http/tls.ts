/** The certificate of the HTTP server, where one is configured. */
import { readFileSync } from 'node:fs';

import { CapstanError } from '../../proto/errors.ts';
import type { GatewayConfig } from '../config.ts';

/** Null: plain HTTP. Throws CONFIG when only half of it is set, or a file cannot be read. */
export function tlsOptions({ httpTlsCert, httpTlsKey }: GatewayConfig): { cert: Buffer; key: Buffer } | null {
  if (httpTlsCert === undefined && httpTlsKey === undefined) return null;
  if (httpTlsCert === undefined || httpTlsKey === undefined) {
    const missing = httpTlsCert === undefined ? 'CAPSTAN_HTTP_TLS_CERT' : 'CAPSTAN_HTTP_TLS_KEY';
    throw new CapstanError('CONFIG', `${missing}: must be set too; certificate and key go together`, { field: missing });
  }
  return { cert: read('CAPSTAN_HTTP_TLS_CERT', httpTlsCert), key: read('CAPSTAN_HTTP_TLS_KEY', httpTlsKey) };
}

function read(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unreadable';
    throw new CapstanError('CONFIG', `${variable}: cannot read ${path} (${code})`, { field: variable, cause });
  }
}
