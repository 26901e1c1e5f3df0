/**
 * The TLS settings of gRPC. They are separate from `grpc-tls.ts`, since every start reads settings but not every one
 * needs gRPC.
 */
import { z } from 'zod';

import { setting } from './settings.ts';

/** Settings shared by every part and the CLI. */
export const tlsSettings = {
  tlsCa: setting(
    'CAPSTAN_TLS_CA',
    z.string().min(1).optional(),
    'File with the CA certificates (PEM) that must have signed the peer’s certificate. When set, gRPC connections use TLS',
  ),
  tlsCert: setting(
    'CAPSTAN_TLS_CERT',
    z.string().min(1).optional(),
    'File with this part’s own certificate and chain (PEM), presented to peers',
  ),
  tlsKey: setting('CAPSTAN_TLS_KEY', z.string().min(1).optional(), 'File with the private key (PEM) of that certificate'),
  grpcPlain: setting(
    'CAPSTAN_GRPC_PLAIN',
    z.enum(['loopback', 'anywhere']).default('loopback'),
    'Where gRPC is allowed without TLS: `loopback` (loopback and unix sockets), or `anywhere` (private networks only)',
  ),
} as const;
