/** The certificate of a peer, by its connection. */
import type { ServerDuplexStream } from '@grpc/grpc-js';

import { endOf, type KnownCertificate } from '../incidents/of-certificates.ts';

/** Empty where the connection has none. */
export function peerCertificate(owner: string, call: Pick<ServerDuplexStream<unknown, unknown>, 'getAuthContext'>): KnownCertificate[] {
  const certificate = call.getAuthContext().sslPeerCertificate?.raw;
  const endsAt = certificate === undefined ? undefined : endOf(certificate);
  return endsAt === undefined ? [] : [{ owner, endsAt }];
}
