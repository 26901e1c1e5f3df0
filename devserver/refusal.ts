/** Sends the development server's own errors: an HTML page for browsers, JSON for other clients. */
import type { IncomingMessage, ServerResponse } from 'node:http';

export interface Refusal {
  readonly status: number;
  /** A few words. */
  readonly error: string;
  readonly detail: string;
  /** Lines of the user's code. */
  readonly excerpt?: readonly string[];
  /** Only on the page: what the worker printed last. */
  readonly log?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  /** The document of the queue API, `{status, title, detail}`, in addition to the `{error, detail}` of load-balanced endpoints. */
  readonly asProblem?: boolean;
}

export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.detail);
    this.refusal = refusal;
  }
}

/** Sends the error unless a response has begun. */
export function refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, error, detail, headers = {}, asProblem = false } = refusal;
  const page = acceptsHtml(request);
  const problem = asProblem ? { status, title: error } : {};
  const body = page ? pageOf(refusal) : JSON.stringify({ ...problem, error, detail });
  response.writeHead(status, {
    ...headers,
    'content-type': page ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'content-length': Buffer.byteLength(body),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

export function acceptsHtml({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers.accept?.includes('text/html') === true;
}

export function pageOf({ status, error, detail, excerpt = [], log = [] }: Refusal): string {
  const section = (title: string, lines: readonly string[]): string =>
    lines.length === 0 ? '' : `<h2>${title}</h2><pre>${escaped(lines.join('\n'))}</pre>`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${status} ${escaped(error)}</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; padding: 0 1rem; color-scheme: light dark }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem; border: 1px solid #8884; border-radius: .4rem; font-size: .875rem }
h1 small { font-weight: normal; opacity: .6 }
</style>
<h1><small>${status}</small> ${escaped(error)}</h1>
<pre>${escaped(detail)}</pre>
${section('Source', excerpt)}
${section('Latest output', log)}
<p><a href="/docs">API documentation</a></p>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;');
}
