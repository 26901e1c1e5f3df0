/** The settings of gRPC's TLS; apart from what acts on them (`grpc-tls.ts`), since every start reads settings and not every one needs gRPC. */
import { z } from 'zod';

import { setting } from './settings.ts';

/** Settings that every part and the tool share. */
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
