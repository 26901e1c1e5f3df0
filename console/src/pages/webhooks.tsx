import type { JSX } from 'preact';

import { LIST_WEBHOOKS, REDELIVER_WEBHOOK } from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWriteRefusal } from '../api/session.ts';
import { time } from '../ui/format.ts';
import { ActionButton, Badge, Failure, Loaded, Mono, Page, Table, Text } from '../ui/parts.tsx';
import { usePages } from '../ui/url-state.ts';

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
  const redeliver = useAction((id: string) => graphql(REDELIVER_WEBHOOK, { id }));
  return (
    <>
      <p class="muted">Deliveries that are still tried, or were given up within the last 24 hours. Delivered ones are not listed.</p>
      <Failure error={redeliver.error} />
      <Loaded query={query}>
        {({ webhooks: { webhooks, next } }) => (
          <>
            <Table
              label="Webhooks"
              rows={webhooks}
              id={({ id }) => id}
              empty={after === null ? 'All webhooks were delivered.' : 'No earlier ones are left.'}
              columns={[
                { title: 'ID', cell: ({ id }) => <Mono of={id} /> },
                { title: 'State', cell: ({ state }) => <Badge state={state} /> },
                { title: 'URL', cell: ({ url }) => <Text of={url} /> },
                { title: 'Tries', isNumber: true, cell: ({ tries }) => tries },
                { title: 'Next try, or deletion', cell: ({ dueAt }) => time(dueAt) },
                { title: 'Error', cell: ({ error }) => <Text of={error ?? ''} /> },
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
