/**
 * The page of an endpoint's routes. It has no data of the endpoint: the browser fetches the document with the key that
 * the reader enters, which is kept in the page's memory only.
 */
import { createHash } from 'node:crypto';

import { REFERENCE_SETTINGS } from '../../../lib/reference-script.ts';

export const SCRIPT_PATH = '/docs/js/scalar.js';

const PAGE_SCRIPT = `
  const base = location.pathname.replace(/\\/docs\\/?$/, '');
  const ask = document.getElementById('ask');
  const show = async (key) => {
    const headers = key === '' ? {} : { authorization: 'Bearer ' + key };
    const answer = await fetch(base + '/openapi.json', { headers });
    const content = await answer.json().catch(() => null);
    if (answer.status === 404) throw new Error('The application has no OpenAPI document at /openapi.json.');
    if (answer.status === 401) throw Object.assign(new Error(content?.detail ?? 'The key was rejected.'), { isRefusal: true });
    if (!answer.ok) throw new Error(content?.detail ?? 'The application responded with ' + answer.status + '.');
    if (content === null || typeof content.paths !== 'object') throw new Error('The document at /openapi.json is not OpenAPI.');
    ask.remove();
    document.title = content.info?.title ?? 'Endpoint';
    // Documents of applications name neither the prefix of the path form nor the key of this service.
    if (base !== '' || content.servers === undefined) content.servers = [{ url: base === '' ? '/' : base }];
    if (key !== '') {
      content.components ??= {};
      content.components.securitySchemes ??= {};
      content.components.securitySchemes.key ??= { type: 'http', scheme: 'bearer', description: 'The API key.' };
      content.security ??= [{ key: [] }];
    }
    Scalar.createApiReference('#reference', {
      content,
      ...${JSON.stringify(REFERENCE_SETTINGS)},
      persistAuth: false,
      authentication: { preferredSecurityScheme: 'key', securitySchemes: { key: { token: key } } },
    });
  };
  ask.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = document.getElementById('key');
    show(key.value).catch((error) => { document.getElementById('refused').textContent = error.message; });
  });
  show('').catch((error) => {
    ask.hidden = false;
    document.getElementById('key').focus();
    if (!error.isRefusal) document.getElementById('refused').textContent = error.message;
  });
`;

/** The source of that script in a Content-Security-Policy. */
export const PAGE_SCRIPT_HASH = `sha256-${createHash('sha256').update(PAGE_SCRIPT).digest('base64')}`;

export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Endpoint</title>
<link rel="icon" href="data:,">
<style>
  body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; }
  #ask { max-width: 26rem; margin: 18vh auto 0; padding: 0 1rem; }
  #ask h1 { font-size: 1.25rem; }
  #ask label { display: block; font-weight: 600; }
  #ask input { box-sizing: border-box; width: 100%; padding: .5rem; margin: .25rem 0 .75rem; font: inherit; border: 1px solid #8c959f; border-radius: 6px; }
  #ask button { padding: .5rem 1rem; font: inherit; color: #fff; background: #1f6feb; border: 0; border-radius: 6px; }
  #refused { color: #b42318; min-height: 1.5em; }
  @media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; } #ask input { color: inherit; background: #161b22; } #refused { color: #ff7b72; } }
</style>
</head>
<body>
<div id="reference"></div>
<form id="ask" hidden>
  <h1>API key required</h1>
  <label for="key">API key</label>
  <input id="key" type="password" autocomplete="off" spellcheck="false" required>
  <button>Show the routes</button>
  <p>The key is kept only in the memory of this page.</p>
  <p role="alert" id="refused"></p>
</form>
<script src="${SCRIPT_PATH}"></script>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
