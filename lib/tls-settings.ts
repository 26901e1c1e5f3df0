/** The settings of gRPC's TLS; apart from what acts on them (`grpc-tls.ts`), since every start reads settings and not every one needs gRPC. */
import { z } from 'zod';

import { setting } from './settings.ts';

/** Settings that every part and the tool share. */
export const tlsSettings = {
  tlsCa: setting(
    'CAPSTAN_TLS_CA',
    z.string().min(1).optional(),
    'File with the certificates (PEM) that the other side of a gRPC connection must be signed by; with it connections use TLS',
  ),
  tlsCert: setting(
    'CAPSTAN_TLS_CERT',
    z.string().min(1).optional(),
    'File with this part’s own certificate and chain (PEM), shown to the other side',
  ),
  tlsKey: setting('CAPSTAN_TLS_KEY', z.string().min(1).optional(), 'File with the private key (PEM) of that certificate'),
  grpcPlain: setting(
    'CAPSTAN_GRPC_PLAIN',
    z.enum(['loopback', 'anywhere']).default('loopback'),
    'Where gRPC may go without TLS: within this host (loopback and unix sockets), or anywhere, on a network that is private by itself',
  ),
} as const;
