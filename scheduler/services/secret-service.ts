/** Secrets over gRPC: set, listed, deleted. No reply has a value. */
import { CapstanError } from '../../lib/errors.ts';
import { compareTexts } from '../../lib/text-order.ts';
import { isSecretName, SECRET_NAME_RULE, secretFault } from '../../lib/secret-references.ts';
import type { ControlServiceServer, SecretInfo } from '../../proto/gen/capstan/v1/control.ts';
import { places } from '../core/control/encryption.ts';
import { secretNotFound, usersOf } from '../core/control/secrets.ts';
import { secretKey, type SecretRow } from '../core/state/control-rows.ts';
import type { State } from '../core/state.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import { checkName } from './deploy-rules.ts';

type SecretHandlers = Pick<ControlServiceServer, 'setSecret' | 'listSecrets' | 'deleteSecret'>;

export function secretHandlers({ engine, auth, cipher, log }: ControlDeps): SecretHandlers {
  return {
    setSecret: unary(log, 'SetSecret', async ({ name, environment, value }, metadata) => {
      const account = auth.account(metadata);
      checkSecret({ name, environment });
      const fault = secretFault(value);
      if (fault !== null) throw new CapstanError('INVALID_ARGUMENT', `value: ${fault}`, { field: 'value' });
      const changed = auth.auditor(log, metadata, 'SetSecret');
      const secret = { account, environment, name };
      // In one turn: a value that waits after its encryption might outlast its key.
      const encrypted = cipher.encrypt(value, places.secret(secret)).toString('base64');
      const isNew = !engine.state.secrets.has(secretKey(secret));
      const audit = entryOf(auth, metadata, { action: 'setSecret', object: objectOf(secret), account, after: { created: isNew } });
      await engine.command({ kind: 'put-secret', ...secret, encrypted }, audit);
      changed({ account, environment, secret: name });
      return infoOf(engine.state, secret);
    }),
    listSecrets: unary(log, 'ListSecrets', (_request, metadata) => {
      const { account } = auth.wholeReader(metadata);
      const secrets = [...engine.state.secrets.values()].filter((secret) => secret.account === account);
      secrets.sort((a, b) => compareTexts(a.name, b.name) || compareTexts(a.environment, b.environment));
      return { secrets: secrets.map((secret) => infoOf(engine.state, secret)) };
    }),
    deleteSecret: unary(log, 'DeleteSecret', async ({ name, environment }, metadata) => {
      const account = auth.account(metadata);
      checkSecret({ name, environment });
      const changed = auth.auditor(log, metadata, 'DeleteSecret');
      const secret = { account, environment, name };
      const before = infoOf(engine.state, secret);
      const audit = entryOf(auth, metadata, { action: 'deleteSecret', object: objectOf(secret), account });
      await engine.command({ kind: 'delete-secret', ...secret }, audit);
      changed({ account, environment, secret: name });
      return before;
    }),
  };
}

function objectOf({ environment, name }: Pick<SecretRow, 'environment' | 'name'>): string {
  return environment === '' ? name : `${environment}/${name}`;
}

function checkSecret({ name, environment }: { readonly name: string; readonly environment: string }): void {
  if (!isSecretName(name)) throw new CapstanError('INVALID_ARGUMENT', `name: ${SECRET_NAME_RULE}`, { field: 'name' });
  if (environment !== '') checkName('environment', environment);
}

/** @throws CapstanError NOT_FOUND. */
function infoOf(state: State, wanted: Pick<SecretRow, 'account' | 'environment' | 'name'>): SecretInfo {
  const secret = state.secrets.get(secretKey(wanted));
  if (secret === undefined) throw secretNotFound(wanted);
  return {
    name: secret.name,
    environment: secret.environment,
    createdAtMs: BigInt(secret.createdAt),
    changedAtMs: BigInt(secret.changedAt),
    usedBy: usersOf(state, secret)
      .map(({ config }) => `${config.environment}/${config.name}`)
      .toSorted(compareTexts),
  };
}
