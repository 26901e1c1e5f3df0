/** The page of a tenant that tries what it can reach of the console. */
import { HOSTILE } from './handlers.ts';

const SCRIPT = `
const base = new URL(document.body.dataset.gateway);
const tries = {};
const attempt = async (name, what) => {
  try { tries[name] = String(await what()); } catch (error) { tries[name] = 'refused: ' + error.name; }
};
const ask = (headers, extra = {}) => async () => {
  const answer = await fetch(new URL('/console/api/graphql', base), {
    method: 'POST', credentials: 'include', headers, body: JSON.stringify({ query: '{ account { id } }' }), ...extra,
  });
  return answer.type === 'opaque' ? 'opaque' : answer.status + ' ' + (await answer.text());
};
await attempt('cookie', () => 'cookies: ' + document.cookie);
await attempt('with the header', ask({ 'capstan-console': '1', 'content-type': 'application/json' }));
await attempt('as a simple request', ask({ 'content-type': 'text/plain' }, { mode: 'no-cors' }));
await attempt('frame', async () => {
  const frame = document.createElement('iframe');
  frame.src = new URL('/console/', base).href;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; frame.onerror = done; setTimeout(done, 2000); });
  return frame.contentDocument?.querySelector('#root') == null ? 'refused' : 'read';
});
await attempt('storage', () => 'stored: ' + Object.keys(localStorage).length);
document.title = JSON.stringify(tries);
`;

export function page(request: Request): Response {
  const { searchParams } = new URL(request.url);
  const gateway = (searchParams.get('gateway') ?? '').replaceAll('"', '');
  const seen = JSON.stringify(Object.fromEntries(request.headers)).replaceAll('<', '&lt;');
  const body = `<!doctype html><body data-gateway="${gateway}"><pre id="headers">${seen}</pre><script type="module">${SCRIPT}</script>`;
  return new Response(body, { headers: { 'content-type': 'text/html; charset=utf-8', 'x-hostile': encodeURIComponent(HOSTILE) } });
}
