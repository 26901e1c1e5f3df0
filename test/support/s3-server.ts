/**
 * An S3-compatible server with one bucket in memory: it verifies signatures (Signature Version 4) and checksums, and
 * lists in pages. It answers PUT, copies of an object, GET with ranges, HEAD, DELETE and ListObjectsV2.
 */
import { createHash, createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface S3Object {
  readonly bytes: Buffer;
  readonly etag: string;
  /** `x-amz-meta-…`, lower case. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Last modification by the server's clock, ms. */
  at: number;
}

/** What happens to one request instead of its answer. */
export type S3Fault =
  | { readonly kind: 'status'; readonly status: number; readonly code: string }
  /** The connection is closed after this many bytes of the body. */
  | { readonly kind: 'cut'; readonly after: number }
  /** Bytes of the stored object are returned changed. */
  | { readonly kind: 'garble' };

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly objects: Map<string, S3Object>;
  /** `PUT build/…`, in order. */
  readonly requests: string[];
  /** Returns a fault for a request, by its method and key; undefined for none. May wait. */
  fault: (method: string, key: string) => S3Fault | Promise<S3Fault | undefined> | undefined;
  /** The server's clock less that of the machine, ms. */
  clockOffset: number;
  close(): void;
}

const PAGE = 2;

/** Where the server listens; a free port by default. */
export interface S3Listener {
  readonly host?: string;
  readonly port?: number;
}

/** Starts a server with one bucket; `account` replaces the bucket, the keys and the region. */
export async function startS3(
  account: Partial<Pick<S3Server, 'bucket' | 'accessKeyId' | 'secretAccessKey' | 'region'>> = {},
  { host = '127.0.0.1', port = 0 }: S3Listener = {},
): Promise<S3Server> {
  const state: { -readonly [K in keyof S3Server]: S3Server[K] } = {
    endpoint: '',
    bucket: 'capstan',
    accessKeyId: 'AKIDEXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
    region: 'eu-test-1',
    ...account,
    objects: new Map<string, S3Object>(),
    requests: [],
    fault: () => undefined,
    clockOffset: 0,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  const server = createServer((request, response) => {
    answer(state, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  state.endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return state;
}

/** The scheduler's settings for the server. */
export function s3Settings({ endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Server) {
  return { s3Endpoint: endpoint, s3Bucket: bucket, s3Region: region, s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey };
}

async function answer(state: S3Server, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '', 'http://server');
  const [, bucket = '', ...rest] = url.pathname.split('/');
  const key = rest.join('/');
  const method = request.method ?? '';
  const bytes = await buffer(request);
  const now = Date.now() + state.clockOffset;
  response.sendDate = false;
  response.setHeader('date', new Date(now).toUTCString());
  const end = (status: number, body: Buffer | string = '', headers: Record<string, string> = {}): void =>
    void response.writeHead(status, headers).end(method === 'HEAD' ? '' : body);
  const refuse = (status: number, code: string): void => end(status, `<?xml version="1.0"?><Error><Code>${code}</Code></Error>`);

  if (!isSigned(state, request, url)) return refuse(403, 'SignatureDoesNotMatch');
  if (bucket !== state.bucket) return refuse(404, 'NoSuchBucket');
  state.requests.push(`${method} ${key}`);
  const fault = await state.fault(method, key);
  if (fault?.kind === 'status') return refuse(fault.status, fault.code);
  if (key === '') return end(200, listing(state, url.searchParams));

  const found = state.objects.get(key);
  switch (method) {
    case 'PUT': {
      const metadata = Object.fromEntries(
        Object.entries(request.headers).flatMap(([name, value]) => (name.startsWith('x-amz-meta-') ? [[name, String(value)]] : [])),
      );
      const copied = request.headers['x-amz-copy-source'];
      if (copied !== undefined) {
        const source = state.objects.get(String(copied).replace(`/${state.bucket}/`, ''));
        if (source === undefined) return refuse(404, 'NoSuchKey');
        state.objects.set(key, { ...source, metadata, at: now });
        return end(200, `<CopyObjectResult><ETag>${source.etag}</ETag></CopyObjectResult>`);
      }
      if (sha256(bytes) !== request.headers['x-amz-content-sha256']) return refuse(400, 'XAmzContentSHA256Mismatch');
      if (request.headers['if-none-match'] === '*' && found !== undefined) return refuse(412, 'PreconditionFailed');
      const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
      state.objects.set(key, { bytes, etag, metadata, at: now });
      return end(200, '', { etag });
    }
    case 'DELETE':
      state.objects.delete(key);
      return end(204);
    default: {
      if (found === undefined) return refuse(404, 'NoSuchKey');
      const match = request.headers['if-match'];
      if (match !== undefined && match !== found.etag) return refuse(412, 'PreconditionFailed');
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
      const body = fault?.kind === 'garble' ? Buffer.alloc(found.bytes.length, 'x') : found.bytes.subarray(from);
      const headers = {
        'content-length': String(body.length),
        'last-modified': new Date(found.at).toUTCString(),
        etag: found.etag,
        ...found.metadata,
        ...(from > 0 ? { 'content-range': `bytes ${from}-${found.bytes.length - 1}/${found.bytes.length}` } : {}),
      };
      if (fault?.kind !== 'cut') return end(from > 0 ? 206 : 200, body, headers);
      response.writeHead(from > 0 ? 206 : 200, headers);
      response.write(body.subarray(0, fault.after), () => response.destroy());
    }
  }
}

/** A page of the objects under a prefix, in the order of their names. */
function listing({ objects }: S3Server, query: URLSearchParams): string {
  const prefix = query.get('prefix') ?? '';
  const after = Buffer.from(query.get('continuation-token') ?? '', 'base64').toString();
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted();
  const page = keys.slice(0, PAGE);
  const rows = page.map(
    (key) =>
      `<Contents><Key>${key}</Key><LastModified>${new Date(objects.get(key)?.at ?? 0).toISOString()}</LastModified><ETag>&quot;e&quot;</ETag></Contents>`,
  );
  const next =
    keys.length > page.length ? `<NextContinuationToken>${Buffer.from(page.at(-1) ?? '').toString('base64')}</NextContinuationToken>` : '';
  return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${String(next !== '')}</IsTruncated>${rows.join('')}${next}</ListBucketResult>`;
}

/** Verifies Signature Version 4 in the header Authorization. */
function isSigned({ accessKeyId, secretAccessKey, region }: S3Server, request: IncomingMessage, url: URL): boolean {
  const { authorization = '' } = request.headers;
  const [, id, day = '', scope = '', names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(authorization) ?? [];
  if (id !== accessKeyId || scope !== `${region}/s3/aws4_request`) return false;
  const headers = names.split(';').map((name) => `${name}:${String(request.headers[name] ?? '').trim()}\n`);
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join('&');
  const canonical = [
    request.method,
    url.pathname,
    query,
    headers.join(''),
    names,
    request.headers['x-amz-content-sha256'] ?? 'UNSIGNED-PAYLOAD',
  ].join('\n');
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], `${day}/${scope}`, sha256(Buffer.from(canonical))].join('\n');
  const key = [day, region, 's3', 'aws4_request'].reduce<Buffer>(
    (secret, part) => hmac(secret, part),
    Buffer.from(`AWS4${secretAccessKey}`),
  );
  return hmac(key, text).toString('hex') === signature;
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
