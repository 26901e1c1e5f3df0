import type { JSX } from 'preact';
import { Link, useLocation, useParams } from 'wouter-preact';

import { DELETE_ENDPOINT, GET_ENDPOINT, type EndpointData } from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { useCurrentInView } from '../../ui/in-view.ts';
import { Badge, ConfirmButton, Copied, Facts, Failure, Loaded, Page, Text } from '../../ui/parts.tsx';
import { ActivityLink } from '../activity.tsx';
import { LogSearch } from '../logs.tsx';
import { WholeAccount } from '../whole-account.tsx';
import { CallSamples } from './call-samples.tsx';
import { EndpointHistory } from './history.tsx';
import { Jobs } from './jobs.tsx';
import { Releases } from './releases.tsx';
import { RouteRequest } from './route-request.tsx';
import { Routes } from './routes.tsx';
import { SettingsForm } from './settings.tsx';
import { TestRequest } from './test-request.tsx';
import { Workers } from './workers.tsx';

const QUEUE_TABS = ['Overview', 'Jobs', 'Test', 'Logs', 'Settings', 'Releases'] as const;
const BALANCED_TABS = ['Overview', 'Test', 'Logs', 'Settings', 'Releases'] as const;

export function EndpointPage(): JSX.Element {
  const { endpoint: id, tab = 'overview' } = useParams<{ endpoint: string; tab?: string }>();
  const query = useLive(['endpoint', id], (signal) => graphql(GET_ENDPOINT, { id }, signal));
  const endpoint = query.data?.endpoint;
  return (
    <Page title={endpoint?.name ?? 'Endpoint'} actions={endpoint == null ? undefined : <Actions endpoint={endpoint} />}>
      <Loaded query={query}>
        {() => (endpoint == null ? <p>There is no endpoint with this ID.</p> : <Tabs endpoint={endpoint} current={tab} />)}
      </Loaded>
    </Page>
  );
}

function Tabs({ endpoint, current }: { endpoint: EndpointData; current: string }): JSX.Element {
  const list = useCurrentInView(current);
  const tabs = endpoint.kind === 'QUEUE' ? QUEUE_TABS : BALANCED_TABS;
  return (
    <>
      <nav class="tabs" aria-label="Parts of the endpoint" ref={list}>
        {tabs.map((tab) => (
          <Link
            key={tab}
            href={`/endpoints/${encodeURIComponent(endpoint.id)}/${tab.toLowerCase()}`}
            aria-current={tab.toLowerCase() === current ? 'page' : undefined}
          >
            {tab}
          </Link>
        ))}
      </nav>
      <Tab endpoint={endpoint} name={current} />
    </>
  );
}

function Tab({ endpoint, name }: { endpoint: EndpointData; name: string }): JSX.Element {
  switch (name) {
    case 'jobs':
      return <Jobs endpoint={endpoint.id} />;
    case 'test':
      return endpoint.kind === 'LOAD_BALANCED' ? (
        <RouteRequest endpoint={endpoint} />
      ) : (
        <>
          <TestRequest endpoint={endpoint} />
          <CallSamples endpoint={endpoint} />
        </>
      );
    case 'logs':
      return (
        <WholeAccount>
          <LogSearch endpoint={endpoint.id} />
        </WholeAccount>
      );
    case 'settings':
      return <SettingsForm endpoint={endpoint} />;
    case 'releases':
      return (
        <WholeAccount>
          <Releases endpoint={endpoint} />
        </WholeAccount>
      );
    default:
      return <Overview endpoint={endpoint} />;
  }
}

function Actions({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const [, navigate] = useLocation();
  const remove = useAction(() => graphql(DELETE_ENDPOINT, { id: endpoint.id }).then(() => navigate('/')));
  return (
    <>
      <ActivityLink of={{ object: `${endpoint.environment}/${endpoint.name}` }} />
      <ConfirmButton
        label="Delete endpoint"
        typed={endpoint.name}
        explain={
          <p>
            <Text of={endpoint.name} /> is deleted: {endpoint.queue.inQueue} queued jobs are cancelled, {endpoint.queue.inProgress} running
            jobs continue to their end, and its URL no longer works.
          </p>
        }
        refusal={refusal}
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate(undefined)}
      />
      <Failure error={remove.error} />
    </>
  );
}

function Overview({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const { queue, scaling } = endpoint;
  const counts = Object.entries(scaling?.counts ?? {}).filter(([, count]) => count > 0);
  return (
    <>
      {queue.reason !== null && (
        <div class="failure" role="status">
          <Badge state={queue.reason} /> <Text of={queue.detail ?? ''} />
        </div>
      )}
      {scaling?.lastStartError != null && (
        <div class="failure">
          {scaling.failedStarts} starts failed one after another. The last one:
          <pre tabIndex={0}>
            <Text of={scaling.lastStartError} />
          </pre>
        </div>
      )}
      <div class="panel">
        <Facts
          of={[
            ['In queue', String(queue.inQueue)],
            ['In progress', String(queue.inProgress)],
            ['Workers', `${endpoint.workers.total} of ${endpoint.workers.max}`],
            ...counts.map(([state, count]) => [state, String(count)] as const),
            ['Environment', <Text of={endpoint.environment} key="e" />],
            ['ID', <Copied of={endpoint.id} key="i" />],
            ['URL', <Copied of={endpoint.url} key="u" />],
            ['Release', <Copied of={endpoint.release} key="r" />],
          ]}
        />
      </div>
      <EndpointHistory endpoint={endpoint} />
      {endpoint.kind === 'LOAD_BALANCED' && <Routes endpoint={endpoint} />}
      <Workers endpoint={endpoint} />
    </>
  );
}
