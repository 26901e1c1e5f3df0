/**
 * The page of the API. It shows the document at once; with a key, which is kept in the page's memory only, its examples
 * name an endpoint and a job of the account, so that each request can be sent as it is shown.
 */
import { createHash } from 'node:crypto';

/** What the page asks with the key: an endpoint with an input that it takes, and its latest job. */
const ENDPOINTS = '{ endpoints { id kind exampleInput build { digest } } }';
const JOBS = 'query ($endpoint: ID!) { jobs(endpoint: $endpoint, limit: 1) { jobs { id } } }';

/** Endpoints whose latest job the page asks for. */
const MAX_ASKED = 20;

const script = (settings: object): string => `
  const ask = document.getElementById('ask');
  const said = document.getElementById('said');
  const graphql = async (key, query, variables) => {
    const answer = await fetch('../graphql', {
      method: 'POST',
      headers: { authorization: 'Bearer ' + key, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    });
    const content = await answer.json().catch(() => null);
    if (!answer.ok || content?.errors) throw new Error(content?.detail ?? content?.errors?.[0]?.message ?? 'The key was rejected.');
    return content.data;
  };
  const facts = async (key) => {
    const { endpoints } = await graphql(key, ${JSON.stringify(ENDPOINTS)});
    const wanted = new URLSearchParams(location.search).get('endpoint');
    const queues = endpoints.filter(({ kind }) => kind === 'QUEUE');
    const chosen = queues.filter(({ id }) => id === wanted);
    const found = { digest: endpoints[0]?.build?.digest };
    // The first that has a job, which other operations need; else the first.
    for (const endpoint of (chosen.length > 0 ? chosen : queues).slice(0, ${MAX_ASKED})) {
      const { jobs } = await graphql(key, ${JSON.stringify(JOBS)}, { endpoint: endpoint.id });
      const jobId = jobs.jobs[0]?.id;
      if (found.endpointId !== undefined && jobId === undefined) continue;
      Object.assign(found, { endpointId: endpoint.id, jobId, digest: endpoint.build?.digest, input: endpoint.exampleInput });
      if (jobId !== undefined) break;
    }
    return found;
  };
  const fill = (document, { input, ...values }) => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const operation of Object.values(operations)) {
        for (const parameter of operation.parameters ?? []) {
          const name = parameter.name === 'id' ? 'jobId' : parameter.name;
          if ((parameter.in === 'path' || parameter.required) && values[name] !== undefined) parameter.example = values[name];
        }
        const media = operation.requestBody?.content?.['application/json'];
        if (media !== undefined && /\\/run(sync)?$/.test(path) && input != null) media.example = { input };
        if (media !== undefined && /\\/(stream|cancel|retry)$/.test(path) && values.jobId !== undefined) media.example = { id: values.jobId };
      }
    }
  };
  const show = async (key) => {
    const document_ = await (await fetch('../openapi.json')).json();
    if (key !== '') fill(document_, await facts(key));
    const place = document.createElement('div');
    document.getElementById('reference').replaceChildren(place);
    Scalar.createApiReference(place, {
      content: document_,
      ...${JSON.stringify(settings)},
      persistAuth: false,
      authentication: { preferredSecurityScheme: 'key', securitySchemes: { key: { token: key } } },
    });
    if (key !== '') ask.remove();
  };
  ask.addEventListener('submit', (event) => {
    event.preventDefault();
    said.textContent = '';
    show(document.getElementById('key').value).catch((error) => { said.textContent = error.message; });
  });
  show('').catch((error) => { said.textContent = error.message; });
`;

export interface DocsPage {
  readonly html: string;
  /** The source of its own script in a Content-Security-Policy. */
  readonly scriptHash: string;
}

/** `settings`: of every reference page. */
export function docsPage(settings: object): DocsPage {
  const own = script(settings);
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Capstan API</title>
<link rel="icon" href="data:,">
<style>
  body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; }
  #ask { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; padding: .5rem 1rem; border-bottom: 1px solid #d0d7de; }
  #ask input { padding: .25rem .5rem; font: inherit; border: 1px solid #8c959f; border-radius: 6px; }
  #ask button { padding: .25rem .75rem; font: inherit; color: #fff; background: #1f6feb; border: 0; border-radius: 6px; }
  #said { color: #b42318; }
  @media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; } #ask input { color: inherit; background: #161b22; } #said { color: #ff7b72; } }
</style>
</head>
<body>
<form id="ask">
  <label for="key">API key</label>
  <input id="key" type="password" autocomplete="off" spellcheck="false" required>
  <button>Use my endpoints in the examples</button>
  <span>It is kept only in the memory of this page.</span>
  <span role="alert" id="said"></span>
</form>
<div id="reference"></div>
<script src="js/scalar.js"></script>
<script>${own}</script>
</body>
</html>
`;
  return { html, scriptHash: `sha256-${createHash('sha256').update(own).digest('base64')}` };
}
