/** Sends the development server's own errors: an HTML page for browsers, `{error, detail}` for other clients. */
import type { FastifyReply, FastifyRequest } from 'fastify';

export interface Refusal {
  readonly status: number;
  /** A few words. */
  readonly error: string;
  readonly detail: string;
  /** Only on the page: what the worker printed last. */
  readonly log?: readonly string[];
}

export function refuse(request: FastifyRequest, reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { status, error, detail } = refusal;
  void reply.code(status);
  return acceptsHtml(request) ? reply.type('text/html; charset=utf-8').send(pageOf(refusal)) : reply.send({ error, detail });
}

export function acceptsHtml({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers.accept?.includes('text/html') === true;
}

export function pageOf({ status, error, detail, log = [] }: Refusal): string {
  const printed = log.length === 0 ? '' : `<h2>Latest output</h2><pre>${escaped(log.join('\n'))}</pre>`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${status} ${escaped(error)}</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; padding: 0 1rem; color-scheme: light dark }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem; border: 1px solid #8884; border-radius: .4rem; font-size: .875rem }
h1 small { font-weight: normal; opacity: .6 }
</style>
<h1><small>${status}</small> ${escaped(error)}</h1>
<pre>${escaped(detail)}</pre>
${printed}
<p><a href="/docs">What is served here</a></p>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
