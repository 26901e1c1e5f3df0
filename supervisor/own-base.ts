/** The address at which this host's tool and workers reach the gateway of a stack, by HTTP or HTTPS. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';

import type { Environment } from '../terminal/config.ts';

/**
 * Base URL, without a trailing slash. With a certificate it is CAPSTAN_PUBLIC_URL, else a name of the certificate,
 * because clients check the name.
 */
export function ownBase({ variables }: Environment, port: string): string {
  const host = reachableHost(variables['CAPSTAN_HTTP_HOST'] ?? '');
  const certificate = variables['CAPSTAN_HTTP_TLS_CERT'] ?? '';
  if (certificate === '') return `http://${authority(host, port)}`;
  const given = (variables['CAPSTAN_PUBLIC_URL'] ?? '').replace(/\/+$/, '');
  return given === '' ? `https://${authority(nameFor(certificate, host), port)}` : given;
}

/** A server that listens on all addresses listens on loopback, too. */
function reachableHost(host: string): string {
  return ['', '0.0.0.0', '::', 'localhost'].includes(host) ? '127.0.0.1' : host;
}

function nameFor(path: string, host: string): string {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(readFileSync(path));
  } catch {
    return host; // the gateway refuses to start with it, and reports why
  }
  if (isIP(host) === 0 || certificate.checkIP(host) !== undefined) return host;
  if (host === '127.0.0.1' && certificate.checkHost('localhost') !== undefined) return 'localhost';
  return /DNS:([^,*\s]+)(?:,|$)/.exec(certificate.subjectAltName ?? '')?.[1] ?? host;
}

function authority(host: string, port: string): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
