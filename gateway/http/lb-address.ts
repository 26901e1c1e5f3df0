/**
 * Detects requests for a load-balanced endpoint: by host, `<endpoint id>.<domain>`, or by path, `/lb/<endpoint id>/…`.
 * Pure.
 */

export interface LbAddress {
  readonly endpointId: string;
  /** Path and query as the endpoint sees them. */
  readonly target: string;
  /** Addressed by path: the response shares the origin of the gateway's own API. */
  readonly pathForm: boolean;
}

const PATH_FORM = /^\/lb\/([^/?#]+)([^#]*)$/;

/**
 * Returns null when the request is for the gateway itself. `url` is in origin form, `domain` in lower case; ports do
 * not count.
 */
export function lbAddress(host: string | undefined, url: string, domain: string): LbAddress | null {
  const suffix = domain.length + 1;
  if (host !== undefined && host.length > suffix) {
    const colon = host.lastIndexOf(':');
    const name = colon === -1 || host.endsWith(']') ? host : host.slice(0, colon);
    // Ids are lower case, because browsers convert host names to lower case.
    const lower = withoutDot(name.toLowerCase());
    if (lower.endsWith(domain) && lower.charAt(lower.length - suffix) === '.') {
      return { endpointId: lower.slice(0, -suffix), target: url, pathForm: false };
    }
  }
  if (!url.startsWith('/lb/')) return null;
  const [, endpointId = '', rest = ''] = PATH_FORM.exec(url) ?? [];
  return endpointId === '' ? null : { endpointId, target: rest.startsWith('/') ? rest : `/${rest}`, pathForm: true };
}

/** A trailing dot, as in absolute DNS names, is removed. */
function withoutDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}
