/** Fields of secrets. No field has a value. */
import type { SecretInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { orNull, time } from './message-values.ts';

export function secretFields({ call, change }: Fields) {
  return {
    secrets: async () => (await call((control) => control.listSecrets, {})).secrets.map(secretShape),
    setSecret: async ({ name, environment, value }) =>
      secretShape(await change((control) => control.setSecret, { name, environment: environment ?? '', value })),
    deleteSecret: async ({ name, environment }) =>
      secretShape(await change((control) => control.deleteSecret, { name, environment: environment ?? '' })),
  } satisfies Partial<Schema.Root>;
}

function secretShape({ name, environment, createdAtMs, changedAtMs, usedBy }: SecretInfo): Schema.Secret {
  return {
    name,
    environment: orNull(environment),
    createdAt: time(createdAtMs),
    changedAt: time(changedAtMs),
    usedBy,
  };
}
