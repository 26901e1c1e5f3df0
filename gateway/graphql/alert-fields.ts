/** Fields of the channels of alerts. No field has a whole address. */
import { AlertChannelKind, type AlertChannel } from '../../proto/gen/capstan/v1/control.ts';
import type { Fields } from './fields.ts';

interface Added {
  readonly kind: 'WEBHOOK' | 'EMAIL';
  readonly address: string;
}

export function alertFields({ call, change }: Fields) {
  return {
    alertChannels: async () => (await call((control) => control.listAlertChannels, {})).channels.map(channelShape),
    addAlertChannel: async ({ kind, address }: Added) =>
      channelShape(await change((control) => control.addAlertChannel, { kind: AlertChannelKind[kind], address })),
    testAlertChannel: async ({ id }: { readonly id: string }) => {
      const { error } = await change((control) => control.testAlertChannel, { id });
      return error === '' ? null : error;
    },
    removeAlertChannel: async ({ id }: { readonly id: string }) =>
      channelShape(await change((control) => control.removeAlertChannel, { id })),
  };
}

function channelShape({ id, kind, address, wholeService, createdAtMs, open, failure }: AlertChannel) {
  return {
    ...{ id, address, wholeService, open },
    kind: kind === AlertChannelKind.EMAIL ? 'EMAIL' : 'WEBHOOK',
    createdAt: new Date(Number(createdAtMs)).toISOString(),
    failure: failure === '' ? null : failure,
  };
}
