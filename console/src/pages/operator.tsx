import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import {
  CREATE_ACCOUNT,
  CREATE_JOIN_TOKEN,
  DELETE_ACCOUNT,
  GET_SERVICE,
  LIST_SCHEDULERS,
  REVOKE_JOIN_TOKEN,
  type AccountRow,
  type JoinTokenRow,
  type ListSchedulersResult,
} from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useOperatorRefusal } from '../api/session.ts';
import { bytes, time } from '../ui/format.ts';
import { ActionButton, ConfirmButton, CopyButton, Failure, Loaded, Mono, Page, Section, Table, Text } from '../ui/parts.tsx';

const HOUR_S = 3_600;

/** Accounts and join tokens, for keys with the scope OPERATOR. */
export function ServicePage(): JSX.Element {
  const refusal = useOperatorRefusal();
  return <Page title="Service">{refusal === undefined ? <Service /> : <p class="muted">{refusal}</p>}</Page>;
}

function Service(): JSX.Element {
  const query = useLive(['service'], (signal) => graphql(GET_SERVICE, {}, signal), 10_000);
  return (
    <Loaded query={query}>
      {({ accounts, joinTokens }) => (
        <>
          <Accounts accounts={accounts} />
          <JoinTokens tokens={joinTokens} />
        </>
      )}
    </Loaded>
  );
}

function Accounts({ accounts }: { accounts: readonly AccountRow[] }): JSX.Element {
  const [id, setId] = useState('');
  const create = useAction(() => graphql(CREATE_ACCOUNT, { id }));
  const remove = useAction((account: string) => graphql(DELETE_ACCOUNT, { id: account }));
  const text = create.data?.createAccount.keyText;
  return (
    <Section title="Accounts">
      <Table
        label="Accounts"
        rows={accounts}
        id={({ id: account }) => account}
        empty="No accounts."
        columns={[
          { title: 'ID', cell: ({ id: account }) => <Mono of={account} /> },
          { title: 'Created', cell: ({ createdAt }) => time(createdAt) },
          { title: 'Endpoints', isNumber: true, cell: ({ endpoints }) => endpoints },
          { title: 'Most workers', isNumber: true, cell: ({ quota: { used, workers } }) => `${used} of ${workers}` },
          { title: 'Stored', isNumber: true, cell: ({ storage: { builds, bodies } }) => bytes(builds.used + bodies.used) },
          { title: 'Isolation', cell: ({ isolation }) => <Text of={isolation?.least ?? '–'} /> },
          { title: 'Cell', cell: ({ cell }) => <Text of={cell} /> },
          {
            title: '',
            cell: ({ id: account, endpoints }) => (
              <ConfirmButton
                label="Delete"
                typed={account}
                explain={
                  <p>
                    <Text of={account} /> is deleted with its keys and environments. Its ID cannot be used again.
                  </p>
                }
                refusal={
                  account === 'default'
                    ? 'Its keys operate the service.'
                    : endpoints > 0
                      ? 'It has endpoints. Delete them first, or use: capstan account delete --force'
                      : undefined
                }
                isBusy={remove.isPending}
                onConfirm={() => remove.mutate(account)}
              />
            ),
          },
        ]}
      />
      <div class="fields">
        <div>
          <label for="account-id">New account</label>
          <input id="account-id" value={id} onInput={(event) => setId(event.currentTarget.value)} />
        </div>
        <ActionButton refusal={id === '' ? 'Enter an ID.' : undefined} isBusy={create.isPending} onClick={() => create.mutate(undefined)}>
          Create account
        </ActionButton>
      </div>
      <Failure error={create.error ?? remove.error} />
      {text !== undefined && <Secret title="Its first key" text={text} onDone={() => create.reset()} />}
    </Section>
  );
}

function Secret({ title, text, onDone }: { title: string; text: string; onDone: () => void }): JSX.Element {
  return (
    <div class="panel" role="status">
      <p>{title}. Save it; it won’t be shown again:</p>
      <pre tabIndex={0}>{text}</pre>
      <div class="actions">
        <CopyButton text={text} />
        <button type="button" onClick={onDone}>
          Done
        </button>
      </div>
    </div>
  );
}

/** Other hosts cannot reach such an address. */
const LOOPBACK = /^(localhost|127\.|\[?::1)/;
const PORT = /:(\d+)$/;
const DEFAULT_PORT = '7070';

/**
 * The command for a host that joins a cell, with the port at which the scheduler listens. Where the scheduler is reached from its own host
 * only, its name is that by which the reader reaches the console, or left to them.
 */
function joinCommand(token: string, cell: string, known: ListSchedulersResult | undefined): string {
  const owner = known?.cluster.schedulers.find((each) => each.cell === cell && each.role === 'OWNER')?.address ?? '';
  const host = LOOPBACK.test(location.hostname) ? '<scheduler>' : location.hostname;
  const address = owner === '' || LOOPBACK.test(owner) ? `${host}:${PORT.exec(owner)?.[1] ?? DEFAULT_PORT}` : owner;
  return `CAPSTAN_SCHEDULER=${address} CAPSTAN_JOIN_TOKEN=${token} capstan agent`;
}

function JoinTokens({ tokens }: { tokens: readonly JoinTokenRow[] }): JSX.Element {
  const schedulers = useLive(['schedulers'], (signal) => graphql(LIST_SCHEDULERS, {}, signal), false);
  const [name, setName] = useState('');
  const [hours, setHours] = useState('24');
  const create = useAction(() =>
    graphql(CREATE_JOIN_TOKEN, {
      name,
      ...(hours === '' ? { never: true } : { expiresInS: Math.round(Number(hours) * HOUR_S) }),
    }),
  );
  const revoke = useAction((id: string) => graphql(REVOKE_JOIN_TOKEN, { id }));
  const made = create.data?.createJoinToken;
  return (
    <Section title="Join tokens">
      <Table
        label="Join tokens"
        rows={tokens}
        id={({ id }) => id}
        empty="No join tokens."
        columns={[
          { title: 'Name', cell: ({ name: of, id }) => <Text of={of === '' ? id : of} /> },
          { title: 'Created', cell: ({ createdAt }) => time(createdAt) },
          { title: 'Expires', cell: ({ expiresAt }) => (expiresAt === null ? 'never' : time(expiresAt)) },
          { title: 'Uses', isNumber: true, cell: ({ uses, maxUses }) => (maxUses === null ? uses : `${uses} of ${maxUses}`) },
          { title: 'Cell', cell: ({ cell }) => <Text of={cell} /> },
          {
            title: '',
            cell: ({ id }) => (
              <ConfirmButton
                label="Revoke"
                explain={<p>No host joins with this token any more. Nodes that joined with it stay.</p>}
                isBusy={revoke.isPending}
                onConfirm={() => revoke.mutate(id)}
              />
            ),
          },
        ]}
      />
      <div class="fields">
        <div>
          <label for="token-name">Name</label>
          <input id="token-name" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <div>
          <label for="token-hours">Expires after hours (empty: never)</label>
          <input id="token-hours" type="number" min={1} value={hours} onInput={(event) => setHours(event.currentTarget.value)} />
        </div>
        <ActionButton isBusy={create.isPending} onClick={() => create.mutate(undefined)}>
          Create join token
        </ActionButton>
      </div>
      <Failure error={create.error ?? revoke.error} />
      {made !== undefined && (
        <Secret
          title="Run this on the host that joins"
          text={joinCommand(made.plaintext, made.token.cell, schedulers.data)}
          onDone={() => create.reset()}
        />
      )}
    </Section>
  );
}
