/** Which requests are for a load-balanced endpoint: by host, `<endpoint id>.<domain>`, or by path, `/lb/<endpoint id>/…`. Pure. */

export interface LbAddress {
  readonly endpointId: string;
  /** Path and query as the endpoint sees them. */
  readonly target: string;
  /** Addressed by path: the answer shares the origin of the gateway's own API. */
  readonly pathForm: boolean;
}

const PATH_FORM = /^\/lb\/([^/?#]+)([^#]*)$/;

/** Null when the request is for the gateway itself. `url` is in origin form, `domain` in lower case; ports do not count. */
export function lbAddress(host: string | undefined, url: string, domain: string): LbAddress | null {
  const suffix = domain.length + 1;
  if (host !== undefined && host.length > suffix) {
    const colon = host.lastIndexOf(':');
    const name = colon === -1 || host.endsWith(']') ? host : host.slice(0, colon);
    // Ids are lower case, as names of hosts are once they were typed into a browser.
    const lower = withoutDot(name.toLowerCase());
    if (lower.endsWith(domain) && lower.charAt(lower.length - suffix) === '.') {
      return { endpointId: lower.slice(0, -suffix), target: url, pathForm: false };
    }
  }
  if (!url.startsWith('/lb/')) return null;
  const [, endpointId = '', rest = ''] = PATH_FORM.exec(url) ?? [];
  return endpointId === '' ? null : { endpointId, target: rest.startsWith('/') ? rest : `/${rest}`, pathForm: true };
}

/** A name with a dot at its end, as DNS writes whole names, is the name without it. */
function withoutDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}
