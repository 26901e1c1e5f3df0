/** Explains a gateway certificate that this host does not trust. */
import { ToolError } from '../terminal/tool-error.ts';

const UNTRUSTED = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
]);

/** Returns null when the failure has another cause. `cause`: the error that a request was rejected with. */
export function certificateProblem(address: string, cause: unknown): ToolError | null {
  const error = cause instanceof Error && !('code' in cause) && cause.cause instanceof Error ? cause.cause : cause;
  if (!(error instanceof Error && 'code' in error)) return null;
  const code = String(error.code);
  if (UNTRUSTED.has(code)) {
    const why = `the certificate of the gateway at ${address} is signed by an unknown authority (${code})`;
    return new ToolError('UNAVAILABLE', why, "Set the authority's certificate (PEM): NODE_EXTRA_CA_CERTS=<ca.crt> capstan …", { cause });
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const why = `the certificate of the gateway at ${address} is for other names`;
    return new ToolError('UNAVAILABLE', why, 'Use one of these names in --url, CAPSTAN_URL or (capstan up) CAPSTAN_PUBLIC_URL.', {
      cause,
    });
  }
  if (code !== 'CERT_HAS_EXPIRED' && code !== 'CERT_NOT_YET_VALID') return null;
  const when = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
  return new ToolError(
    'UNAVAILABLE',
    `the certificate of the gateway at ${address} ${when}`,
    'Renew it, or correct the clock of this host.',
    {
      cause,
    },
  );
}
