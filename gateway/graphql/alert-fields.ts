/** Fields of the channels of alerts. No field has a whole address. */
import { AlertChannelKind, type AlertChannel } from '../../proto/gen/capstan/v1/control.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { nameOf, orNull, time } from './message-values.ts';

export function alertFields({ call, change }: Fields) {
  return {
    alertChannels: async () => (await call((control) => control.listAlertChannels, {})).channels.map(channelShape),
    addAlertChannel: async ({ kind, address }) =>
      channelShape(await change((control) => control.addAlertChannel, { kind: AlertChannelKind[kind], address })),
    testAlertChannel: async ({ id }) => {
      const { error } = await change((control) => control.testAlertChannel, { id });
      return orNull(error);
    },
    removeAlertChannel: async ({ id }) => channelShape(await change((control) => control.removeAlertChannel, { id })),
  } satisfies Partial<Schema.Root>;
}

function channelShape({ id, kind, address, wholeService, createdAtMs, open, failure }: AlertChannel): Schema.AlertChannel {
  return {
    ...{ id, address, wholeService, open },
    kind: nameOf(AlertChannelKind, kind),
    createdAt: time(createdAtMs),
    failure: orNull(failure),
  };
}
