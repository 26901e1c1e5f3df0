/** Where the account is told of what needs attention. No address is shown whole: it is a secret. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import {
  ADD_ALERT_CHANNEL,
  LIST_ALERT_CHANNELS,
  REMOVE_ALERT_CHANNEL,
  TEST_ALERT_CHANNEL,
  type AlertChannelRow,
} from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWriteRefusal } from '../api/session.ts';
import { ActionButton, ConfirmButton, Failure, Loaded, Section, SinceTime, Table, Text } from '../ui/parts.tsx';

/** How often failures of deliveries are read, ms. */
const POLL_MS = 10_000;

/** The channels, with what can be done with each, and a form for another one. */
export function Alerts(): JSX.Element {
  const query = useLive(['alert-channels'], (signal) => graphql(LIST_ALERT_CHANNELS, {}, signal), POLL_MS);
  return (
    <Section title="Alerts">
      <Loaded query={query}>{({ alertChannels }) => <Channels channels={alertChannels} />}</Loaded>
      <NewChannel />
    </Section>
  );
}

function Channels({ channels }: { channels: readonly AlertChannelRow[] }): JSX.Element {
  const refusal = useWriteRefusal();
  const remove = useAction((id: string) => graphql(REMOVE_ALERT_CHANNEL, { id }));
  return (
    <>
      <Table
        label="Alerts"
        rows={channels}
        id={({ id }) => id}
        empty="Nobody is told. Add a webhook that takes Slack-compatible messages, or an e-mail address."
        columns={[
          { title: 'Address', cell: ({ address }) => <Text of={address} /> },
          { title: 'Kind', cell: ({ kind }) => (kind === 'EMAIL' ? 'e-mail' : 'webhook') },
          { title: 'About', cell: ({ wholeService }) => (wholeService ? 'the whole service' : 'the account') },
          { title: 'Open', isNumber: true, cell: ({ open }) => open },
          { title: 'Added', cell: ({ createdAt }) => <SinceTime at={createdAt} /> },
          {
            title: 'Last failure',
            isLong: true,
            cell: ({ failure }) => (failure === null ? '–' : <Text of={failure} />),
          },
          {
            title: '',
            cell: ({ id, address }) => (
              <div class="actions">
                <TestButton id={id} refusal={refusal} />
                <ConfirmButton
                  label="Remove"
                  explain={
                    <p>
                      No more alerts go to <Text of={address} />. Its address cannot be shown again.
                    </p>
                  }
                  refusal={refusal}
                  isBusy={remove.isPending}
                  onConfirm={() => remove.mutate(id)}
                />
              </div>
            ),
          },
        ]}
      />
      <Failure error={remove.error} />
    </>
  );
}

/** Sends a test message, and says beside the button whether it arrived. */
function TestButton({ id, refusal }: { id: string; refusal: string | undefined }): JSX.Element {
  const test = useAction(async () => (await graphql(TEST_ALERT_CHANNEL, { id })).testAlertChannel);
  const failure = test.error?.message ?? test.data;
  return (
    <>
      <ActionButton refusal={refusal} isBusy={test.isPending} onClick={() => test.mutate(undefined)}>
        Test
      </ActionButton>
      <span role="status">
        {test.isPending ? 'Sending…' : failure == null ? test.isSuccess && 'Delivered.' : <Text of={`Not delivered: ${failure}`} />}
      </span>
    </>
  );
}

function NewChannel(): JSX.Element {
  const refusal = useWriteRefusal();
  const [address, setAddress] = useState('');
  const add = useAction(async () => {
    const kind = /^https?:/i.test(address.trim()) ? 'WEBHOOK' : 'EMAIL';
    await graphql(ADD_ALERT_CHANNEL, { kind, address: address.trim() });
    setAddress('');
  });
  return (
    <>
      <div class="fields">
        <div class="wide">
          <label for="alert-address">URL of a webhook, or e-mail address</label>
          <input
            id="alert-address"
            value={address}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setAddress(event.currentTarget.value)}
          />
        </div>
        <ActionButton
          tone="primary"
          refusal={refusal ?? (address.trim() === '' ? 'Enter an address.' : undefined)}
          isBusy={add.isPending}
          onClick={() => add.mutate(undefined)}
        >
          Add channel
        </ActionButton>
      </div>
      <Failure error={add.error} />
    </>
  );
}
