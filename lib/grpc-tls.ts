/**
 * Security of gRPC connections (docs/install.md, Certificates): mutual TLS where certificates are configured; plaintext
 * only within one host, unless the operator declares the network private.
 */
import { readFileSync } from 'node:fs';

import { credentials, ServerCredentials, type ChannelCredentials } from '@grpc/grpc-js';

import { CapstanError } from './errors.ts';
import { explained } from './tls-channel.ts';
import { errnoOf } from './to-error.ts';

/** The contents of the settings in `tls-settings.ts`. */
export interface TlsConfig {
  readonly tlsCa?: string | undefined;
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  readonly grpcPlain?: 'loopback' | 'anywhere' | undefined;
}

/**
 * Returns the credentials to dial `host:port` or `unix:<path>`.
 * @throws CapstanError CONFIG when the address is on another host and no certificates are set, or a file is unreadable.
 */
export function clientCredentials(address: string, config: TlsConfig): ChannelCredentials {
  const own = ownCertificate(config);
  if (config.tlsCa !== undefined)
    return explained(credentials.createSsl(pemOf('CAPSTAN_TLS_CA', config.tlsCa), own?.key ?? null, own?.cert ?? null), own !== null);
  requirePlain(address, config, 'CAPSTAN_TLS_CA');
  return credentials.createInsecure();
}

/**
 * Returns the credentials to listen on `host:port`. With CAPSTAN_TLS_CA, clients must present a certificate signed by
 * it.
 * @throws CapstanError CONFIG as for clients, and when only a part of the certificates is set.
 */
export function serverCredentials(address: string, config: TlsConfig): ServerCredentials {
  const own = ownCertificate(config);
  if (own !== null) {
    const ca = config.tlsCa === undefined ? null : pemOf('CAPSTAN_TLS_CA', config.tlsCa);
    return ServerCredentials.createSsl(ca, [{ cert_chain: own.cert, private_key: own.key }], ca !== null);
  }
  if (config.tlsCa !== undefined) {
    throw new CapstanError('CONFIG', 'CAPSTAN_TLS_CERT: is required when CAPSTAN_TLS_CA is set: a server needs its own certificate', {
      field: 'CAPSTAN_TLS_CERT',
    });
  }
  requirePlain(address, config, 'CAPSTAN_TLS_CERT');
  return ServerCredentials.createInsecure();
}

/** True for addresses that exist only within this host. */
export function isOnThisHost(address: string): boolean {
  if (/^unix(-abstract)?:/.test(address)) return true;
  const [first = '', ...more] = address.split(',');
  if (more.length > 0) return isOnThisHost(first.trim()) && isOnThisHost(more.join(',').trim());
  const host = address
    .replace(/^(dns|ipv4|ipv6):(\/\/\/)?/, '')
    .replace(/:\d{1,5}$/, '')
    .replace(/^\[(.*)\]$/, '$1');
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** True for the address of a peer, as gRPC names it, that is a process of this host. */
export function isLocalPeer(peer: string): boolean {
  return peer === 'unknown' || isOnThisHost(peer.replace(/^(\[?)::ffff:/i, '$1'));
}

function requirePlain(address: string, config: TlsConfig, variable: string): void {
  if (config.grpcPlain === 'anywhere' || isOnThisHost(address)) return;
  throw new CapstanError(
    'CONFIG',
    `${variable}: ${address} is not on this host, and gRPC to other hosts requires TLS; set ${variable} together with the other TLS settings, or set CAPSTAN_GRPC_PLAIN=anywhere if the network is private`,
    { field: variable },
  );
}

function ownCertificate(config: TlsConfig): { readonly cert: Buffer; readonly key: Buffer } | null {
  const { tlsCert, tlsKey } = config;
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert === undefined || tlsKey === undefined) {
    const missing = tlsCert === undefined ? 'CAPSTAN_TLS_CERT' : 'CAPSTAN_TLS_KEY';
    throw new CapstanError('CONFIG', `${missing}: is required; CAPSTAN_TLS_CERT and CAPSTAN_TLS_KEY must be set together`, {
      field: missing,
    });
  }
  return { cert: pemOf('CAPSTAN_TLS_CERT', tlsCert), key: pemOf('CAPSTAN_TLS_KEY', tlsKey) };
}

/** Reads the file of a certificate or key. @throws CapstanError CONFIG naming the variable when it is unreadable. */
export function pemOf(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const code = errnoOf(cause) ?? 'unreadable';
    throw new CapstanError('CONFIG', `${variable}: cannot read ${path} (${code})`, { field: variable, cause });
  }
}
