import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { LIST_FOUND_ENDPOINTS, LIST_WEBHOOKS, REDELIVER_WEBHOOK, type ListWebhooksResult } from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { ApiError, graphql } from '../api/request.ts';
import { useWriteRefusal } from '../api/session.ts';
import { time, timeOfId } from '../ui/format.ts';
import { ActionButton, Badge, ConfirmButton, Failure, Loaded, Page, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { usePages, useUrlState } from '../ui/url-state.ts';

type Webhook = ListWebhooksResult['webhooks']['webhooks'][number];

/** The id of a delivery begins with that of its job. */
const jobOf = ({ id }: Webhook): string => id.split('_')[0] ?? id;

interface Filter {
  readonly endpoint: string;
  readonly state: string;
}

function matches(webhook: Webhook, { endpoint, state }: Filter): boolean {
  return (endpoint === '' || webhook.endpoint === endpoint) && (state === '' || webhook.state === state);
}

/** Sends all deliveries again that match, of all pages; `onSent` receives how many were sent so far. */
async function resendAll(filter: Filter, onSent: (count: number) => void): Promise<void> {
  const ids: string[] = [];
  // All are listed before the first is sent: one that succeeds leaves the list.
  for (let after: string | null = null; ;) {
    const { webhooks }: ListWebhooksResult = await graphql(LIST_WEBHOOKS, { after });
    ids.push(...webhooks.webhooks.filter((each) => matches(each, filter)).map(({ id }) => id));
    after = webhooks.next;
    if (after === null) break;
  }
  onSent(0);
  for (const [sent, id] of ids.entries()) {
    try {
      await graphql(REDELIVER_WEBHOOK, { id });
    } catch (error) {
      // It was delivered meanwhile.
      if (!(error instanceof ApiError && error.code === 'NOT_FOUND')) throw error;
    }
    onSent(sent + 1);
  }
}

/** Deliveries that have not succeeded. Keys that may not change anything may not read them either. */
export function WebhooksPage(): JSX.Element {
  const refusal = useWriteRefusal();
  return (
    <Page title="Webhooks">
      {refusal === undefined ? <Deliveries /> : <p class="muted">This needs a key with the scope ALL or OPERATOR.</p>}
    </Page>
  );
}

function Deliveries(): JSX.Element {
  const { after, newer, older } = usePages();
  const query = useLive(['webhooks', after], (signal) => graphql(LIST_WEBHOOKS, { after }, signal), after === null ? undefined : false);
  const [filter, change] = useUrlState({ endpoint: '', state: '' });
  const endpoints = useLive(['webhook-endpoints'], (signal) => graphql(LIST_FOUND_ENDPOINTS, {}, signal), 60_000).data?.endpoints ?? [];
  const nameOf = (id: string): string => endpoints.find((each) => each.id === id)?.name ?? id;
  const [sent, setSent] = useState<number>();
  const all = useAction(async () => resendAll(filter, setSent));
  const redeliver = useAction((id: string) => graphql(REDELIVER_WEBHOOK, { id }));
  return (
    <>
      <p class="muted">Deliveries that are still tried, or were given up within the last 24 hours. Delivered ones are not listed.</p>
      <Failure error={redeliver.error ?? all.error} />
      <div class="fields">
        <div>
          <label for="webhook-endpoint">Endpoint</label>
          <select id="webhook-endpoint" value={filter.endpoint} onChange={(event) => change({ endpoint: event.currentTarget.value })}>
            <option value="">all</option>
            {endpoints.map(({ id, name, environment }) => (
              <option key={id} value={id}>
                {visible(environment === 'default' ? name : `${environment}/${name}`)}
              </option>
            ))}
          </select>
        </div>
        <div>
          <label for="webhook-state">State</label>
          <select id="webhook-state" value={filter.state} onChange={(event) => change({ state: event.currentTarget.value })}>
            <option value="">all</option>
            <option value="PENDING">PENDING</option>
            <option value="FAILED">FAILED</option>
          </select>
        </div>
        <ConfirmButton
          label="Send all again"
          explain={<p>All deliveries that the filter admits, also of other pages, are sent again; their tries start over.</p>}
          isBusy={all.isPending}
          onOpen={() => setSent(undefined)}
          onConfirm={() => all.mutate(undefined)}
        />
        {sent !== undefined && <span role="status">{sent} sent again.</span>}
      </div>
      <Loaded query={query}>
        {({ webhooks: { webhooks, next } }) => (
          <>
            <Table
              label="Webhooks"
              rows={webhooks.filter((each) => matches(each, filter))}
              id={({ id }) => id}
              empty={emptyText(webhooks.length > 0, after === null)}
              columns={[
                {
                  title: 'Job',
                  isId: true,
                  cell: (webhook) => (
                    <Link href={`/endpoints/${encodeURIComponent(webhook.endpoint)}/jobs/${encodeURIComponent(jobOf(webhook))}`}>
                      {visible(jobOf(webhook))}
                    </Link>
                  ),
                },
                {
                  title: 'Endpoint',
                  cell: ({ endpoint }) => <Link href={`/endpoints/${encodeURIComponent(endpoint)}`}>{visible(nameOf(endpoint))}</Link>,
                },
                { title: 'Submitted', cell: ({ id }) => time(timeOfId(id)) },
                {
                  title: 'State',
                  cell: ({ state, dueAt }) => (
                    <>
                      <Badge state={state} />
                      <div class="muted">
                        {state === 'FAILED' ? 'kept until' : 'next try'} {time(dueAt)}
                      </div>
                    </>
                  ),
                },
                {
                  title: 'URL and error',
                  isLong: true,
                  cell: ({ url, error }) => (
                    <>
                      <Text of={url} />
                      {error !== null && (
                        <div class="muted">
                          <Text of={error} />
                        </div>
                      )}
                    </>
                  ),
                },
                { title: 'Tries', isNumber: true, cell: ({ tries }) => tries },
                {
                  title: '',
                  cell: ({ id }) => (
                    <ActionButton isBusy={redeliver.isPending} onClick={() => redeliver.mutate(id)}>
                      Send again
                    </ActionButton>
                  ),
                },
              ]}
            />
            <div class="actions">
              <button type="button" disabled={after === null} onClick={newer}>
                Newer
              </button>
              <button type="button" disabled={next === null} onClick={() => next !== null && older(next)}>
                Older
              </button>
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

function emptyText(areHidden: boolean, isFirst: boolean): string {
  if (areHidden) return 'None of this page matches the filter.';
  return isFirst ? 'All webhooks were delivered.' : 'No earlier ones are left.';
}
