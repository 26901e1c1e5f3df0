/** The session, the frame around all pages, and which page is at which path. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link, Route, Router, Switch, useLocation } from 'wouter-preact';

import { startEvents, stopEvents } from './api/events.ts';
import { client } from './api/live.ts';
import { ApiError, BASE_PATH, listenForSignOut } from './api/request.ts';
import { readSession, SessionContext, signOut, type Session } from './api/session.ts';
import { AccountPage } from './pages/account.tsx';
import { ActivityPage } from './pages/activity.tsx';
import { useIncidents } from './pages/attention.tsx';
import { DocumentationPage } from './pages/documentation.tsx';
import { EndpointPage } from './pages/endpoint/page.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { JobPage } from './pages/job.tsx';
import { KeysPage } from './pages/keys.tsx';
import { NodePage } from './pages/node.tsx';
import { NodesPage } from './pages/nodes.tsx';
import { ServicePage } from './pages/operator.tsx';
import { SavedViews } from './pages/saved-views.tsx';
import { SearchBox } from './pages/search.tsx';
import { SignInPage } from './pages/sign-in.tsx';
import { WebhooksPage } from './pages/webhooks.tsx';
import { FreshnessBanner, LiveMark } from './ui/freshness-banner.tsx';
import { useFreshness } from './api/freshness.ts';
import { useCurrentInView } from './ui/in-view.ts';
import { Failure, Page, Text } from './ui/parts.tsx';
import { ThemeSwitch } from './ui/theme.tsx';

type State =
  | { kind: 'unknown' }
  | { kind: 'signed-out'; reason: string }
  | { kind: 'signed-in'; session: Session }
  | { kind: 'failed'; error: Error };

export function App(): JSX.Element {
  const [state, setState] = useState<State>({ kind: 'unknown' });
  useEffect(() => {
    listenForSignOut((reason) => {
      client.clear();
      setState({ kind: 'signed-out', reason });
    });
    readSession().then(
      (session) => setState({ kind: 'signed-in', session }),
      (error: unknown) => {
        if (error instanceof ApiError && error.status === 401) setState({ kind: 'signed-out', reason: '' });
        else setState({ kind: 'failed', error: error instanceof Error ? error : new Error(String(error)) });
      },
    );
  }, []);

  useEffect(() => {
    if (state.kind !== 'signed-in') return undefined;
    startEvents();
    return stopEvents;
  }, [state.kind]);

  switch (state.kind) {
    case 'unknown':
      return <p class="muted sign-in">Loading…</p>;
    case 'failed':
      return (
        <main class="sign-in">
          <h1>Capstan</h1>
          <Failure error={state.error} />
          <button type="button" onClick={() => location.reload()}>
            Try again
          </button>
        </main>
      );
    case 'signed-out':
      return <SignInPage reason={state.reason} onSignedIn={(session) => setState({ kind: 'signed-in', session })} />;
    case 'signed-in':
      return (
        <SessionContext.Provider value={state.session}>
          <Router base={BASE_PATH.replace(/\/$/, '')}>
            <Shell session={state.session} onSignedOut={() => setState({ kind: 'signed-out', reason: 'You signed out.' })} />
          </Router>
        </SessionContext.Provider>
      );
  }
}

const NAVIGATION = [
  ['/', 'Overview'],
  ['/nodes', 'Nodes'],
  ['/webhooks', 'Webhooks'],
  ['/keys', 'API keys'],
  ['/activity', 'Activity'],
  ['/account', 'Account'],
  ['/service', 'Service'],
] as const;

/** Pages that the key may not read are not in the navigation. */
function isOffered(to: string, { scope, isOperator }: Session): boolean {
  if (to === '/activity') return scope === 'ALL' || scope === 'OPERATOR';
  return to !== '/service' || isOperator;
}

function Shell({ session, onSignedOut }: { session: Session; onSignedOut: () => void }): JSX.Element {
  const [path] = useLocation();
  const [error, setError] = useState<Error>();
  const leave = (): void => {
    signOut().then(
      () => {
        client.clear();
        onSignedOut();
      },
      (failure: unknown) => setError(failure instanceof Error ? failure : new Error(String(failure))),
    );
  };
  const isCurrent = (to: string): boolean => (to === '/' ? path === '/' || path.startsWith('/endpoints') : path.startsWith(to));
  const pages = useCurrentInView(path);
  useIncidents(['ALL', 'READ_ONLY', 'OPERATOR'].includes(session.scope));
  const isStale = useFreshness().staleSince !== undefined;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.querySelector('main')?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <strong>Capstan</strong>
        <nav aria-label="Pages" ref={pages}>
          {NAVIGATION.filter(([to]) => isOffered(to, session)).map(([to, name]) => (
            <Link key={to} href={to} aria-current={isCurrent(to) ? 'page' : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <span class="muted who">
          <Text of={`${session.account.name ?? session.account.id} · ${session.keyName ?? 'key'} · ${session.scope}`} />
        </span>
        <SearchBox />
        <SavedViews />
        <LiveMark />
        <ThemeSwitch />
        <button type="button" onClick={leave}>
          Sign out
        </button>
      </header>
      <FreshnessBanner />
      <main tabIndex={-1} class={isStale ? 'stale' : ''}>
        <Failure error={error} />
        <Switch>
          <Route path="/" component={OverviewPage} />
          <Route path="/endpoints/:endpoint/jobs/:job" component={JobPage} />
          <Route path="/endpoints/:endpoint/:tab?" component={EndpointPage} />
          <Route path="/nodes" component={NodesPage} />
          <Route path="/nodes/:node" component={NodePage} />
          <Route path="/webhooks" component={WebhooksPage} />
          <Route path="/keys" component={KeysPage} />
          <Route path="/activity" component={ActivityPage} />
          <Route path="/account" component={AccountPage} />
          <Route path="/service" component={ServicePage} />
          <Route path="/docs/:page" component={DocumentationPage} />
          <Route>
            <Page title="Not found">
              <p>There is no page at this address.</p>
            </Page>
          </Route>
        </Switch>
      </main>
    </>
  );
}
