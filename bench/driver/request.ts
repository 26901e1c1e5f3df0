/** A request as bytes, encoded once and sent many times. */

export interface RequestSpec {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON text. */
  readonly body?: string;
}

export interface PreparedRequest {
  readonly host: string;
  readonly port: number;
  readonly bytes: Buffer;
}

export function prepareRequest(spec: RequestSpec): PreparedRequest {
  const url = new URL(spec.url);
  if (url.protocol !== 'http:') throw new Error(`${spec.url}: the driver speaks plain HTTP only`);
  const body = spec.body ?? '';
  const headers: Record<string, string> = { host: url.host, ...spec.headers };
  if (body !== '') {
    headers['content-type'] ??= 'application/json';
    headers['content-length'] = String(Buffer.byteLength(body));
  }
  const method = spec.method ?? (body === '' ? 'GET' : 'POST');
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
  return { host: url.hostname, port: Number(url.port || 80), bytes: Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`) };
}
