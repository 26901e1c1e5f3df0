/** The optional certificate of the HTTP server. A renewed one is loaded without a restart. */
import { createSecureContext } from 'node:tls';

import { CapstanError } from '../../lib/errors.ts';
import { pemOf } from '../../lib/grpc-tls.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { GatewayConfig } from '../config.ts';
import type { Log } from '../log.ts';

export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

type Files = Pick<GatewayConfig, 'httpTlsCert' | 'httpTlsKey'>;

/**
 * Null for plain HTTP. Throws CONFIG when only one of the two is set, a file is not readable, or certificate and key do
 * not match.
 */
export function readCertificate({ httpTlsCert, httpTlsKey }: Files): Certificate | null {
  if (httpTlsCert === undefined && httpTlsKey === undefined) return null;
  if (httpTlsCert === undefined || httpTlsKey === undefined) {
    const missing = httpTlsCert === undefined ? 'CAPSTAN_HTTP_TLS_CERT' : 'CAPSTAN_HTTP_TLS_KEY';
    throw new CapstanError('CONFIG', `${missing}: is required; certificate and key must be set together`, { field: missing });
  }
  const found = { cert: pemOf('CAPSTAN_HTTP_TLS_CERT', httpTlsCert), key: pemOf('CAPSTAN_HTTP_TLS_KEY', httpTlsKey) };
  try {
    createSecureContext(found);
  } catch (cause) {
    const why = messageOf(cause);
    throw new CapstanError('CONFIG', `CAPSTAN_HTTP_TLS_CERT: ${httpTlsCert} and ${httpTlsKey} are not a certificate and its key (${why})`, {
      field: 'CAPSTAN_HTTP_TLS_CERT',
      cause,
    });
  }
  return found;
}

export interface RenewalOptions {
  readonly files: Files;
  readonly everyMs: number;
  readonly log: Log;
  /** Used for new connections; open ones keep theirs. */
  readonly use: (certificate: Certificate) => void;
}

/**
 * Reads the files periodically, so that every way of renewal (a changed link, a replaced file) is noticed. Files that
 * do not match, as between two writes, are ignored until they do.
 */
export function followRenewals(first: Certificate, { files, everyMs, log, use }: RenewalOptions): () => void {
  let known = first;
  let complained = '';
  const timer = setInterval(() => {
    try {
      const found = readCertificate(files);
      if (found === null || (found.cert.equals(known.cert) && found.key.equals(known.key))) return;
      known = found;
      complained = '';
      use(found);
      log.info('HTTPS certificate reloaded');
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== complained) log.warn({ reason }, 'the new HTTPS certificate is not usable; keeping the previous one');
      complained = reason;
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
