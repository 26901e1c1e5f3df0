/** Keys and accounts over gRPC: create, list, revoke. The plaintext of a key is in one reply and nowhere else. */
import { compareTexts } from '../../lib/text-order.ts';
import { randomBytes } from 'node:crypto';

import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import {
  KeyScope,
  type AccountInfo,
  type ControlServiceServer,
  type CreateKeyRequest,
  type CreateKeyResponse,
  type KeyInfo,
} from '../../proto/gen/capstan/v1/control.ts';
import { type State, liveEndpoints } from '../core/state.ts';
import type { KeyRow } from '../core/state/control-rows.ts';
import { bodyBytesOf } from '../core/jobs/body-use.ts';
import type { Quotas } from '../core/events.ts';
import { keyId } from '../../lib/key-id.ts';
import { accountExists, accountNotFound, keysOf } from '../core/control/keys.ts';
import { accountRow, bodyQuotaOf, buildQuotaOf, quotaOf } from '../core/endpoints/quotas.ts';
import { hashKey } from '../secrets/hash.ts';
import { DEFAULT_ACCOUNT } from './auth.ts';
import type { AuditFacts } from '../core/audit.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import { checkName } from './deploy-rules.ts';
import { endpointNamed } from './endpoint-info.ts';
import { rulesMessage, rulesOf } from './isolation-rules.ts';
import { pageOf } from './page.ts';
import { checkShownName } from './shown-name.ts';

/** Characters of a key's plaintext shown in lists; at most a quarter of a short one that an operator chose. */
const PREFIX_LENGTH = 8;
const MAX_KEYS = 1_000;

type KeyHandlers = Pick<
  ControlServiceServer,
  | 'createKey'
  | 'noteKeyUse'
  | 'listKeys'
  | 'revokeKey'
  | 'getAccount'
  | 'createAccount'
  | 'listAccounts'
  | 'updateAccount'
  | 'deleteAccount'
>;

function newKeyText(): string {
  return `cap_${randomBytes(24).toString('base64url')}`;
}

/** Returns the row of a key with this plaintext. */
export function keyRow(
  text: string,
  key: Pick<KeyRow, 'account' | 'name' | 'scope' | 'endpoints' | 'environment'>,
  createdAt: number,
  expiresAt: number | null,
): KeyRow {
  return {
    ...key,
    hash: hashKey(text).toString('hex'),
    prefix: text.slice(0, Math.min(PREFIX_LENGTH, text.length >> 2)),
    createdAt,
    expiresAt,
    usedAt: null,
  };
}

export function keyHandlers({ engine, auth, log, clock, uploads, cells }: ControlDeps): KeyHandlers {
  const call = <Request, Reply>(name: string, handler: (request: Request, metadata: Metadata) => Promise<Reply> | Reply) =>
    unary<Request, Reply>(log, name, handler);
  const now = (): number => clock.now().wall;
  const info = (id: string): AccountInfo => accountInfo(engine.state, id, uploads.use(id).bytes);

  /** Returns the account of a call: the caller's own, or for operators another one. */
  function accountOf(metadata: Metadata, own: string, wanted: string): string {
    if (wanted === '' || wanted === own) return own;
    if (!auth.isOperator(metadata)) throw onlyOperators('account', 'an account other than that of the key requires');
    if (!accountExists(engine.state, wanted)) throw accountNotFound(wanted, 'account');
    return wanted;
  }

  async function create(request: CreateKeyRequest, account: string, metadata: Metadata): Promise<CreateKeyResponse> {
    if (keysOf(engine.state, account).length >= MAX_KEYS)
      throw new CapstanError('QUOTA_EXCEEDED', `keys: the account already has ${MAX_KEYS} keys; revoke some`, { field: 'name' });
    const text = newKeyText();
    const expiresAt = request.expiresInS === 0 ? null : now() + request.expiresInS * 1_000;
    const key = keyRow(text, { account, name: keyName(request.name), ...scopeOf(engine.state, account, request) }, now(), expiresAt);
    const { name, scope, endpoints, environment } = key;
    const after = { id: keyId(key.hash), scope, endpoints, environment, expiresInS: request.expiresInS };
    await engine.command({ kind: 'put-key', key }, entryOf(auth, metadata, { action: 'createApiKey', object: name, account, after }));
    const made = keyInfo(key);
    return { text, key: made };
  }

  return {
    createKey: call('CreateKey', async (request, metadata) => {
      const account = accountOf(metadata, auth.account(metadata, request.account), request.account);
      if (request.scope === KeyScope.OPERATOR) {
        if (!auth.isOperator(metadata)) throw onlyOperators('scope', 'a key with the scope OPERATOR can be created only by');
        if (account !== DEFAULT_ACCOUNT)
          throw new CapstanError('INVALID_ARGUMENT', `scope: OPERATOR is only for keys of the account ${DEFAULT_ACCOUNT}`, {
            field: 'scope',
          });
      }
      const changed = auth.auditor(log, metadata, 'CreateKey');
      const made = await create(request, account, metadata);
      changed({ account, key: made.key?.id, scope: request.scope });
      return made;
    }),
    listKeys: call('ListKeys', (request, metadata) => {
      const account = accountOf(metadata, auth.wholeReader(metadata).account, request.account);
      return {
        keys: keysOf(engine.state, account)
          .toSorted((a, b) => a.createdAt - b.createdAt || compareTexts(a.hash, b.hash))
          .map(keyInfo),
      };
    }),
    revokeKey: call('RevokeKey', async ({ id, account: wanted }, metadata) => {
      const account = accountOf(metadata, auth.account(metadata, wanted), wanted);
      const key = findKey(engine.state, account, id);
      if (key.scope === KeyScope.OPERATOR && !auth.isOperator(metadata))
        throw onlyOperators('id', 'a key with the scope OPERATOR can be revoked only by');
      const changed = auth.auditor(log, metadata, 'RevokeKey');
      const before = { id: keyId(key.hash), scope: key.scope };
      await engine.command(
        { kind: 'revoke-key', hash: key.hash },
        entryOf(auth, metadata, { action: 'revokeApiKey', object: key.name, account, before }),
      );
      const revoked = keyInfo(key);
      changed({ account, key: revoked.id, scope: revoked.scope });
      return { key: revoked };
    }),
    noteKeyUse: call('NoteKeyUse', async ({ hashes }, metadata) => {
      auth.gateway(metadata);
      await engine.command({ kind: 'note-keys', hashes: hashes.map((hash) => hash.toString('hex')) });
      return {};
    }),
    getAccount: call('GetAccount', (_request, metadata) => info(auth.wholeReader(metadata).account)),
    createAccount: call('CreateAccount', async ({ id, isolation, ...quotas }, metadata) => {
      auth.operator(metadata);
      checkName('id', id);
      const { accountIsolation: leastIsolation, accountNetwork: network } = engine.state.settings;
      const rules = rulesOf(isolation, { leastIsolation, network });
      const changed = auth.auditor(log, metadata, 'CreateAccount');
      const cell = await cells?.claimAccount(id);
      if (cells !== null && cell !== cells.own)
        throw new CapstanError('ALREADY_EXISTS', `id: ${id} is taken in the cell ${cell ?? ''}`, { field: 'id' });
      const keyText = newKeyText();
      const firstKey = keyRow(
        keyText,
        { account: id, name: 'first key', scope: KeyScope.ALL, endpoints: [], environment: '' },
        now(),
        null,
      );
      const wanted = quotasOf(quotas);
      const audit = entryOf(auth, metadata, { action: 'createAccount', object: id, account: id, after: { ...wanted, ...rules } });
      await engine.command({ kind: 'put-account', account: id, quotas: wanted, rules, create: true, firstKey }, audit);
      changed({ account: id, key: keyId(firstKey.hash) });
      return { account: info(id), keyText };
    }),
    listAccounts: call('ListAccounts', (request, metadata) => {
      auth.operator(metadata);
      const { state } = engine;
      const ids = new Set([DEFAULT_ACCOUNT, ...state.accounts.keys(), ...[...state.keys.values()].map(({ account }) => account)]);
      const existing = [...ids].filter((id) => accountExists(state, id)).map((id) => ({ id }));
      return { accounts: pageOf(existing, request).map(({ id }) => info(id)) };
    }),
    updateAccount: call('UpdateAccount', async ({ id, isolation, ...inputs }, metadata) => {
      auth.operator(metadata);
      const changed = auth.auditor(log, metadata, 'UpdateAccount');
      const wanted = quotasOf(inputs);
      const rules = rulesOf(isolation, accountRow(engine.state, id));
      const isReset = isolation === undefined && Object.keys(wanted).length === 0;
      const quotas = isReset ? { workerQuota: null, buildQuota: null, bodyQuota: null } : wanted;
      const row: AuditFacts = { ...accountRow(engine.state, id) };
      const after: AuditFacts = { ...quotas, ...rules };
      const before = Object.fromEntries(Object.keys(after).map((name) => [name, row[name] ?? null]));
      const audit = entryOf(auth, metadata, { action: 'updateAccount', object: id, account: id, before, after });
      await engine.command({ kind: 'put-account', account: id, quotas, rules, create: false }, audit);
      changed({ account: id, ...quotas, ...rules });
      return info(id);
    }),
    deleteAccount: call('DeleteAccount', async ({ id, force, stopJobs }, metadata) => {
      auth.operator(metadata);
      if (id === DEFAULT_ACCOUNT)
        throw new CapstanError('INVALID_ARGUMENT', `id: the account ${id} cannot be deleted: its keys operate the service`, {
          field: 'id',
        });
      const changed = auth.auditor(log, metadata, 'DeleteAccount');
      const before = info(id);
      const audit = entryOf(auth, metadata, { action: 'deleteAccount', object: id, after: { force, stopJobs } });
      await engine.command({ kind: 'delete-account', account: id, force, stopJobs }, audit);
      changed({ account: id, force, stopJobs });
      return before;
    }),
  };
}

/** @throws CapstanError NOT_FOUND; INVALID_ARGUMENT if several keys have the name. */
function findKey(state: State, account: string, wanted: string): KeyRow {
  const keys = keysOf(state, account);
  const byId = keys.find(({ hash }) => keyId(hash) === wanted);
  if (byId !== undefined) return byId;
  const [first, ...others] = wanted === '' ? [] : keys.filter(({ name }) => name === wanted);
  if (first === undefined) throw new CapstanError('NOT_FOUND', `id: key ${JSON.stringify(wanted)} does not exist`, { field: 'id' });
  if (others.length === 0) return first;
  const ids = [first, ...others].map(({ hash }) => keyId(hash)).join(', ');
  throw new CapstanError('INVALID_ARGUMENT', `id: several keys have the name ${JSON.stringify(wanted)}; use an id: ${ids}`, {
    field: 'id',
  });
}

/** Returns the scope of the requested key. */
function scopeOf(state: State, account: string, request: CreateKeyRequest): Pick<KeyRow, 'scope' | 'endpoints' | 'environment'> {
  const environment = request.environment === '' ? 'default' : request.environment;
  if (request.scope !== KeyScope.ENDPOINTS && request.endpoints.length > 0)
    throw new CapstanError('INVALID_ARGUMENT', 'endpoints: is allowed only with the scope ENDPOINTS', { field: 'endpoints' });
  switch (request.scope) {
    case KeyScope.OPERATOR:
    case KeyScope.ALL:
    case KeyScope.READ_ONLY:
      return { scope: request.scope, endpoints: [], environment: '' };
    case KeyScope.ENVIRONMENT:
      // The environment may be created later, by its first deployment.
      checkName('environment', environment);
      return { scope: request.scope, endpoints: [], environment };
    case KeyScope.ENDPOINTS: {
      if (request.endpoints.length === 0)
        throw new CapstanError('INVALID_ARGUMENT', 'endpoints: must name at least one endpoint', { field: 'endpoints' });
      const ids = request.endpoints.map((wanted) => endpointNamed(state, account, environment, wanted).config.id);
      return { scope: request.scope, endpoints: [...new Set(ids)], environment: '' };
    }
    default:
      throw new CapstanError('INVALID_ARGUMENT', 'scope: must be ALL, ENDPOINTS, READ_ONLY, ENVIRONMENT or OPERATOR', { field: 'scope' });
  }
}

function keyName(name: string): string {
  checkShownName(name);
  return name.trim();
}

function onlyOperators(field: string, rule: string): CapstanError {
  return new CapstanError('PERMISSION_DENIED', `${field}: ${rule} a key with the scope OPERATOR`, { field });
}

function keyInfo(key: KeyRow): KeyInfo {
  return {
    id: keyId(key.hash),
    name: key.name,
    prefix: key.prefix,
    scope: key.scope,
    endpointIds: [...key.endpoints],
    environment: key.environment,
    createdAtMs: BigInt(key.createdAt),
    expiresAtMs: BigInt(key.expiresAt ?? 0),
    lastUsedAtMs: BigInt(key.usedAt ?? 0),
  };
}

function accountInfo(state: State, account: string, buildBytes: number): AccountInfo {
  const endpoints = liveEndpoints(state, account);
  return {
    id: account,
    createdAtMs: BigInt(accountRow(state, account).createdAt),
    workerQuota: quotaOf(state, account),
    workersMax: endpoints.reduce((sum, { config }) => sum + config.workersMax, 0),
    endpoints: endpoints.length,
    buildBytes: BigInt(buildBytes),
    buildQuotaBytes: BigInt(buildQuotaOf(state, account)),
    bodyBytes: BigInt(bodyBytesOf(state, account)),
    bodyQuotaBytes: BigInt(bodyQuotaOf(state, account)),
    isolation: rulesMessage(accountRow(state, account)),
  };
}

interface QuotaInputs {
  readonly workerQuota?: number | undefined;
  readonly buildQuotaBytes?: bigint | undefined;
  readonly bodyQuotaBytes?: bigint | undefined;
}

/** Returns the quotas in a request; 0 is the service's default. */
function quotasOf({ workerQuota, buildQuotaBytes, bodyQuotaBytes }: QuotaInputs): Partial<Quotas> {
  return {
    ...(workerQuota === undefined ? {} : { workerQuota: workerQuota === 0 ? null : workerQuota }),
    ...(buildQuotaBytes === undefined ? {} : { buildQuota: quotaBytes('build_quota_bytes', buildQuotaBytes) }),
    ...(bodyQuotaBytes === undefined ? {} : { bodyQuota: quotaBytes('body_quota_bytes', bodyQuotaBytes) }),
  };
}

function quotaBytes(field: string, bytes: bigint): number | null {
  if (bytes > BigInt(Number.MAX_SAFE_INTEGER))
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be at most ${Number.MAX_SAFE_INTEGER} bytes`, { field });
  return bytes === 0n ? null : Number(bytes);
}
