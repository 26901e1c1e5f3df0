/** The page on which a browser signs in to an endpoint. It has no script, and shows nothing of the endpoint. Pure. */

/** Paths on an endpoint's own host that the gateway answers itself. */
export const SIGN_IN_PATH = '/.capstan/sign-in';
export const SIGN_OUT_PATH = '/.capstan/sign-out';

/** No frame shows the page: another page must not lead a click to it. */
export const SIGN_IN_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/** `to`: path and query to return to. `message`: why an attempt failed; empty for none. */
export function signInPage(to: string, message: string): string {
  const said = message === '' ? '' : `<p role="alert">${escaped(message)}</p>`;
  return page(`<h1>Sign in</h1>
<p>This endpoint requires an API key. Use one that is limited to this endpoint: its pages are those of its application.</p>
${said}<form method="post" action="${SIGN_IN_PATH}">
<input type="hidden" name="to" value="${escaped(to)}">
<label>API key <input type="password" name="key" autocomplete="current-password" required autofocus></label>
<button>Sign in</button>
</form>
<p><a href="${escaped(to)}">I am signed in: continue</a></p>`);
}

/** For the path form, where the pages of all endpoints have one origin: a cookie would not be one endpoint's alone. */
export function otherAddressPage(address: string): string {
  return page(`<h1>Sign in</h1>
<p>This endpoint requires an API key. A browser signs in at the endpoint's own address: <a href="${escaped(address)}">${escaped(address)}</a></p>`);
}

/** Returns the path to return to: of this host, never an address elsewhere, and of characters that a header may have. */
export function returnPath(given: string): string {
  return /^\/(?![/\\])[!-[\]-~]*$/.test(given) && given.length <= 2_048 && !given.startsWith('/.capstan/') ? given : '/';
}

function page(body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sign in</title>
<style>body{font:16px system-ui,sans-serif;margin:15vh auto;max-width:32rem;padding:0 1rem}input{font:inherit;width:100%;box-sizing:border-box;margin:.3rem 0 1rem}button{font:inherit;padding:.3rem 1rem}</style>
</head><body>
${body}
</body></html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
