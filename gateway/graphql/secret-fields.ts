/** Fields of secrets. No field has a value. */
import type { SecretInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Fields } from './fields.ts';
import type { Optional } from './pages.ts';

interface Named {
  readonly name: string;
  readonly environment?: Optional<string>;
}

export function secretFields({ call, change }: Fields) {
  return {
    secrets: async () => (await call((control) => control.listSecrets, {})).secrets.map(secretShape),
    setSecret: async ({ name, environment, value }: Named & { readonly value: string }) =>
      secretShape(await change((control) => control.setSecret, { name, environment: environment ?? '', value })),
    deleteSecret: async ({ name, environment }: Named) =>
      secretShape(await change((control) => control.deleteSecret, { name, environment: environment ?? '' })),
  };
}

function secretShape({ name, environment, createdAtMs, changedAtMs, usedBy }: SecretInfo) {
  return {
    name,
    environment: environment === '' ? null : environment,
    createdAt: new Date(Number(createdAtMs)).toISOString(),
    changedAt: new Date(Number(changedAtMs)).toISOString(),
    usedBy,
  };
}
