import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { CREATE_KEY, GET_ACCOUNT, LIST_KEYS, REVOKE_KEY, type ListKeysResult, type KeyScope } from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useSession, useWriteRefusal } from '../api/session.ts';
import { time } from '../ui/format.ts';
import { ActionButton, ConfirmButton, CopyButton, Failure, Loaded, Mono, Page, Section, Table, Text } from '../ui/parts.tsx';
import { useUrlState } from '../ui/url-state.ts';
import { ActivityLink } from './activity.tsx';
import { WholeAccount } from './whole-account.tsx';

const DAY_S = 86_400;

export function KeysPage(): JSX.Element {
  return (
    <Page title="API keys">
      <WholeAccount>
        <Keys />
      </WholeAccount>
    </Page>
  );
}

function Keys(): JSX.Element {
  const refusal = useWriteRefusal();
  const query = useLive(['keys'], (signal) => graphql(LIST_KEYS, {}, signal), 10_000);
  const revoke = useAction((id: string) => graphql(REVOKE_KEY, { id }));
  const [{ filter }, change] = useUrlState({ filter: '' });
  const isShown = ({ id, name, prefix }: ListKeysResult['apiKeys'][number]): boolean =>
    `${id} ${name} ${prefix}`.toLowerCase().includes(filter.toLowerCase());
  return (
    <>
      <CreateKey />
      <Failure error={revoke.error} />
      <div class="fields">
        <div>
          <label for="filter">Filter</label>
          <input id="filter" type="search" value={filter} onInput={(event) => change({ filter: event.currentTarget.value }, 'replace')} />
        </div>
      </div>
      <Loaded query={query}>
        {({ apiKeys }) => (
          <Table
            label="API keys"
            rows={apiKeys.filter(isShown)}
            id={({ id }) => id}
            empty={apiKeys.length === 0 ? 'No keys.' : 'No key matches.'}
            columns={[
              { title: 'Name', cell: ({ name }) => <Text of={name} /> },
              { title: 'Key', cell: ({ prefix }) => <Mono of={`${prefix}…`} /> },
              { title: 'Scope', cell: ({ scope, environment }) => <Text of={environment === null ? scope : `${scope} ${environment}`} /> },
              { title: 'Created', cell: ({ createdAt }) => time(createdAt) },
              { title: 'Last used', cell: ({ lastUsedAt }) => time(lastUsedAt) },
              { title: 'Expires', cell: ({ expiresAt }) => (expiresAt === null ? 'never' : time(expiresAt)) },
              { title: 'Activity', cell: ({ id }) => <ActivityLink of={{ key: id }} /> },
              {
                title: '',
                cell: ({ id, name }) => (
                  <ConfirmButton
                    label="Revoke"
                    explain={
                      <p>
                        <Text of={name} /> is refused at once, everywhere, and its sessions of this console end. This cannot be undone.
                      </p>
                    }
                    refusal={refusal}
                    isBusy={revoke.isPending}
                    onConfirm={() => revoke.mutate(id)}
                  />
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </>
  );
}

function CreateKey(): JSX.Element {
  const refusal = useWriteRefusal();
  const { isOperator } = useSession();
  const [name, setName] = useState('');
  const [scope, setScope] = useState<KeyScope>('ALL');
  const [environment, setEnvironment] = useState('default');
  const environments = useLive(['account'], (signal) => graphql(GET_ACCOUNT, {}, signal), false);
  const [days, setDays] = useState('');
  const create = useAction(() =>
    graphql(CREATE_KEY, {
      name,
      scope,
      ...(scope === 'ENVIRONMENT' ? { environment } : {}),
      ...(days === '' ? {} : { expiresInS: Math.round(Number(days) * DAY_S) }),
    }),
  );
  const text = create.data?.createApiKey.plaintext;
  return (
    <Section title="New key">
      <div class="fields">
        <div>
          <label for="key-name">Name</label>
          <input id="key-name" value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <div>
          <label for="key-scope">Scope</label>
          <select id="key-scope" value={scope} onChange={(event) => setScope(event.currentTarget.value as KeyScope)}>
            {['ALL', 'READ_ONLY', 'ENVIRONMENT', ...(isOperator ? ['OPERATOR'] : [])].map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        {scope === 'ENVIRONMENT' && (
          <div>
            <label for="key-environment">Environment</label>
            <select id="key-environment" value={environment} onChange={(event) => setEnvironment(event.currentTarget.value)}>
              {[...new Set(['default', ...(environments.data?.environments ?? []).map((each) => each.name)])].map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </div>
        )}
        <div>
          <label for="key-days">Expires after days (empty: never)</label>
          <input id="key-days" type="number" min={1} value={days} onInput={(event) => setDays(event.currentTarget.value)} />
        </div>
        <ActionButton
          tone="primary"
          refusal={refusal ?? (name.trim() === '' ? 'Enter a name.' : undefined)}
          isBusy={create.isPending}
          onClick={() => create.mutate(undefined)}
        >
          Create key
        </ActionButton>
      </div>
      <Failure error={create.error} />
      {text !== undefined && (
        <div class="panel" role="status">
          <p>Save this key; it won’t be shown again:</p>
          <p>
            <code>{text}</code> <CopyButton text={text} />
          </p>
          <button type="button" onClick={() => create.reset()}>
            Done
          </button>
        </div>
      )}
    </Section>
  );
}
