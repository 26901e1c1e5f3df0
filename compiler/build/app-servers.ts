/** Adds the packages that serve web applications in Python, so that an application without a server runs as it is. */
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { requirementName } from './python-names.ts';

/** Serves ASGI; uvicorn speaks WebSocket with either of two packages, and this one is small and has no compiled code. */
const ASGI = ['uvicorn', 'wsproto'];
const WSGI = ['waitress'];
/** Frameworks of one interface only. An application of any other gets both servers: a file does not tell which it has. */
const ASGI_FRAMEWORKS = new Set(['fastapi', 'starlette', 'litestar', 'quart', 'blacksheep', 'fasthtml']);
const WSGI_FRAMEWORKS = new Set(['flask', 'bottle', 'pyramid', 'dash', 'apiflask']);

/** Returns the packages that no requirement names. `given`: all requirements of the project. */
export function missingServers(endpoints: readonly DeclaredEndpoint[], given: readonly string[]): string[] {
  const names = new Set(given.map(requirementName));
  const wanted = new Set(endpoints.flatMap(serversOf));
  return [...wanted].filter((each) => !names.has(each) && !(each === 'wsproto' && names.has('websockets')));
}

function serversOf({ app, imports }: DeclaredEndpoint): string[] {
  if (app === null) return [];
  const isAsgi = imports.some((each) => ASGI_FRAMEWORKS.has(each));
  const isWsgi = imports.some((each) => WSGI_FRAMEWORKS.has(each));
  return [...(isAsgi || !isWsgi ? ASGI : []), ...(isWsgi || !isAsgi ? WSGI : [])];
}
