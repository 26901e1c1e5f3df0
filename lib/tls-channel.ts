/**
 * Credentials of gRPC channels with TLS whose peers may be named by IP addresses, and whose failures say which certificate is wrong.
 *
 * grpc-js passes the host to `tls.connect` as the server's name, which must not be an IP address (RFC 6066; a deprecation warning of Node).
 * With TLS 1.3 a client has finished its handshake before the server has judged the client's certificate: a server that refuses it just ends
 * the connection. So a connection counts once the server has sent something: its HTTP/2 settings.
 */
import { isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';

import type { ChannelCredentials } from '@grpc/grpc-js';

/** What grpc-js passes to `tls.connect`, in its connector. */
interface Connector {
  readonly connectionOptions: { servername?: string; host?: string };
  connect(socket: unknown): Promise<{ readonly socket: TLSSocket }>;
}

interface SecureCredentials {
  _createSecureConnector(...parameters: unknown[]): Connector;
}

/** A server that speaks second is one that has accepted the client, too. */
const SILENT_MS = 1_000;

const UNTRUSTED: ReadonlySet<string> = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
]);

/** Changes the credentials as described above, and returns them. `hasOwn`: they hold a certificate of this part. */
export function explained(credentials: ChannelCredentials, hasOwn: boolean): ChannelCredentials {
  const inner = credentials as unknown as SecureCredentials;
  const create = inner._createSecureConnector.bind(credentials);
  inner._createSecureConnector = (...parameters) => {
    const connector = create(...parameters);
    const { connectionOptions } = connector;
    const { servername = '' } = connectionOptions;
    if (isIP(servername) !== 0) {
      // The certificate is checked against the host where there is no server name.
      connectionOptions.host = servername;
      connectionOptions.servername = '';
    }
    const connect = connector.connect.bind(connector);
    connector.connect = async (socket) => {
      const connection = await connect(socket).catch((error: unknown) => {
        throw explain(error);
      });
      await acceptance(connection.socket, hasOwn);
      return connection;
    };
    return connector;
  };
  return credentials;
}

/** Resolves when the server has sent something, or is silent for a while; rejects when it ends the connection instead. */
function acceptance(socket: TLSSocket, hasOwn: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = (error?: Error): void => {
      clearTimeout(timer);
      socket.off('readable', onReadable).off('close', onClose).off('error', onClose);
      if (error === undefined) resolve();
      else {
        socket.on('error', () => undefined);
        socket.destroy();
        reject(error);
      }
    };
    const onClose = (): void => over(new Error(hasOwn ? REFUSED : MISSING));
    const onReadable = (): void => {
      if (socket.readableLength > 0) over();
      else if (socket.readableEnded || !socket.readable) onClose();
    };
    const timer = setTimeout(() => over(), SILENT_MS);
    socket.on('readable', onReadable).on('close', onClose).on('error', onClose);
  });
}

const REFUSED =
  'the peer ended the connection after the TLS handshake: it does not accept the certificate of this part (CAPSTAN_TLS_CERT), which must ' +
  "be valid and signed by an authority in the peer's CAPSTAN_TLS_CA";
const MISSING = 'the peer ended the connection after the TLS handshake: it requires a certificate (CAPSTAN_TLS_CERT, CAPSTAN_TLS_KEY)';

function explain(thrown: unknown): unknown {
  if (!(thrown instanceof Error)) return thrown;
  const code = 'code' in thrown ? String(thrown.code) : thrown.message;
  if (UNTRUSTED.has(code))
    return new Error(`the certificate of the peer is signed by another authority than those in CAPSTAN_TLS_CA (${code})`, {
      cause: thrown,
    });
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return new Error(`the certificate of the peer is not valid now (${code})`, { cause: thrown });
  if (code === 'ECONNRESET') return new Error('the peer ended the connection during the TLS handshake (ECONNRESET)', { cause: thrown });
  return thrown;
}
