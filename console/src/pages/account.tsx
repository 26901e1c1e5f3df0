import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import {
  CREATE_ENVIRONMENT,
  DELETE_ENVIRONMENT,
  GET_ACCOUNT,
  type CreateEnvironmentVariables,
  type EnvironmentRow,
} from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWriteRefusal } from '../api/session.ts';
import { bytes, percent, time } from '../ui/format.ts';
import { ActionButton, ConfirmButton, Facts, Failure, Loaded, Mono, Page, Section, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { Alerts } from './alerts.tsx';
import { WholeAccount } from './whole-account.tsx';

interface Use {
  readonly used: number;
  readonly quota: number;
}

const DIGITS = 12;

function useText({ used, quota }: Use): string {
  return `${bytes(used)} of ${bytes(quota)} (${percent(used, quota)})`;
}

/** The account with its quotas, environments and builds. */
export function AccountPage(): JSX.Element {
  return (
    <Page title="Account">
      <WholeAccount>
        <Account />
      </WholeAccount>
    </Page>
  );
}

function Account(): JSX.Element {
  const query = useLive(['account'], (signal) => graphql(GET_ACCOUNT, {}, signal), 10_000);
  return (
    <>
      <Loaded query={query}>
        {({ account, environments, builds }) => (
          <>
            <div class="panel">
              <Facts
                of={[
                  ['Account', <Mono of={account.id} key="a" />],
                  ['Cell', <Text of={account.cell} key="c" />],
                  ['Most workers', `${account.quota.used} of ${account.quota.workers}`],
                  ['Builds', useText(account.storage.builds)],
                  ['Inputs and outputs', useText(account.storage.bodies)],
                  ['Least isolation', <Text of={account.isolation?.least ?? '–'} key="l" />],
                  ['Runtimes', <Text of={account.isolation?.runtimes.join(', ') ?? '–'} key="r" />],
                  ['Network', <Text of={account.isolation?.network ?? '–'} key="n" />],
                ]}
              />
            </div>
            <Alerts />
            <Environments environments={environments} />
            <Section title="Builds">
              <Table
                label="Builds"
                rows={builds}
                id={({ digest, environment }) => digest + environment}
                empty="No builds."
                columns={[
                  { title: 'Build', cell: ({ digest }) => <Mono of={digest.replace('sha256:', '').slice(0, DIGITS)} /> },
                  { title: 'Environment', cell: ({ environment }) => <Text of={environment} /> },
                  { title: 'Size', isNumber: true, cell: ({ size }) => bytes(size) },
                  { title: 'Deployed', cell: ({ deployedAt }) => time(deployedAt) },
                  { title: 'Used now by', cell: ({ current }) => <Text of={current.length === 0 ? '–' : current.join(', ')} /> },
                ]}
              />
            </Section>
          </>
        )}
      </Loaded>
    </>
  );
}

function Environments({ environments }: { environments: readonly EnvironmentRow[] }): JSX.Element {
  const refusal = useWriteRefusal();
  const [name, setName] = useState('');
  const change = useAction(({ verb, of }: { verb: 'createEnvironment' | 'deleteEnvironment'; of: string }) =>
    graphql<unknown, CreateEnvironmentVariables>(verb === 'createEnvironment' ? CREATE_ENVIRONMENT : DELETE_ENVIRONMENT, { name: of }).then(
      () => setName(''),
    ),
  );
  return (
    <Section title="Environments">
      <Table
        label="Environments"
        rows={environments}
        id={(each) => each.name}
        empty="No environments. The first deployment creates one."
        columns={[
          { title: 'Name', cell: (each) => <Text of={each.name} /> },
          { title: 'Created', cell: ({ createdAt }) => time(createdAt) },
          { title: 'Deployments', isNumber: true, cell: ({ deployment }) => deployment },
          {
            title: 'Endpoints',
            cell: ({ endpoints }) =>
              endpoints.map(({ id, name: endpoint }) => (
                <span key={id}>
                  <Link href={`/endpoints/${encodeURIComponent(id)}`}>{visible(endpoint)}</Link>{' '}
                </span>
              )),
          },
          {
            title: '',
            cell: ({ name: of, endpoints }) => (
              <ConfirmButton
                label="Delete"
                explain={
                  <p>
                    The environment <Text of={of} /> is deleted with its history of deployments.
                  </p>
                }
                refusal={refusal ?? (endpoints.length > 0 ? 'Delete its endpoints first.' : undefined)}
                isBusy={change.isPending}
                onConfirm={() => change.mutate({ verb: 'deleteEnvironment', of })}
              />
            ),
          },
        ]}
      />
      <div class="fields">
        <div>
          <label for="environment">New environment</label>
          <input id="environment" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <ActionButton
          refusal={refusal ?? (name === '' ? 'Enter a name.' : undefined)}
          isBusy={change.isPending}
          onClick={() => change.mutate({ verb: 'createEnvironment', of: name })}
        >
          Create environment
        </ActionButton>
      </div>
      <Failure error={change.error} />
    </Section>
  );
}
