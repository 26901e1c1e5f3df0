/** Authenticates callers by the credentials of docs/borders.md and checks what their scopes permit. */
import type { Metadata } from '@grpc/grpc-js';

import { ADDRESS_KEY, callerAddress, GATEWAY_KEY } from '../../lib/caller-address.ts';
import { CapstanError } from '../../lib/errors.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { BlobCaller } from '../blobs/service.ts';
import { keyId } from '../../lib/key-id.ts';
import { ownsAccount } from '../core/control/keys.ts';
import type { KeyRow } from '../core/state/control-rows.ts';
import type { AuditEntry } from '../core/audit.ts';
import { AuditBudget } from './audit-budget.ts';
import type { EndpointConfig } from '../core/state/endpoints.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { GatewayToken } from '../secrets/gateway-token.ts';
import { hashKey, sameHash, sameSecret } from '../secrets/hash.ts';
import { LeasedInputs } from './leased-inputs.ts';
import { claimedWorker, type WorkerTokens } from '../secrets/worker-tokens.ts';

/** The holder of an API key or of a worker token. */
export interface AccountPrincipal {
  readonly role: 'account';
  /** Id of the key; empty for a worker token. */
  readonly key: string;
  /** Absent for a worker token. */
  readonly keyName?: string;
  readonly account: string;
  readonly scope: KeyScope;
  /** With the scope ENDPOINTS: their ids. */
  readonly endpoints: readonly string[];
  /** With the scope ENVIRONMENT: its name. */
  readonly environment: string;
  /** Of a worker token: the endpoint of the worker, whose jobs alone it may list. */
  readonly workerOf?: string;
  /**
   * An operator's key of the cell `default` at the scheduler of another cell. Its account does not live here: it operates
   * this cell, and owns nothing in it.
   */
  readonly isGuest?: true;
}

/** An authenticated caller. */
export type Principal = { readonly role: 'gateway' } | AccountPrincipal | { readonly role: 'node'; readonly node: string };

/** The data of an account that a caller may read. */
export interface Reader {
  readonly account: string;
  /** The whole account, not only some endpoints. */
  readonly all: boolean;
  /** Also the whole fleet. */
  readonly operator: boolean;
  /** Whether the caller may see an endpoint of the account. */
  readonly sees: (config: EndpointConfig) => boolean;
  /** Whether the caller may list the jobs of an endpoint that it sees. A job whose id it knows it may read in any case. */
  readonly listsJobs: (config: EndpointConfig) => boolean;
}

/** The account of a fresh installation, and the only one whose keys may have the scope OPERATOR. */
export const DEFAULT_ACCOUNT = 'default';

/** Operators whose account lives in another cell. */
export interface Guests {
  /** Returns the valid key with this SHA-256 (hex). @throws CapstanError UNAVAILABLE while the keys cannot be read. */
  operatorKey(hash: string): KeyRow | undefined;
}

const noGuests: Guests = { operatorKey: () => undefined };

export class Authorizer {
  readonly #engine: Engine;
  readonly #gatewayToken: Pick<GatewayToken, 'value'>;
  readonly #workerTokens: WorkerTokens;
  readonly #guests: Guests;
  readonly #auditBudget = new AuditBudget();
  /** Inputs that nodes may read. */
  readonly inputs: LeasedInputs;

  constructor(engine: Engine, gatewayToken: Pick<GatewayToken, 'value'>, workerTokens: WorkerTokens, guests: Guests = noGuests) {
    this.#engine = engine;
    this.#gatewayToken = gatewayToken;
    this.#workerTokens = workerTokens;
    this.#guests = guests;
    this.inputs = new LeasedInputs(() => engine.state);
  }

  /** Returns the caller with these credentials. UNAUTHENTICATED if none is valid. */
  identify(metadata: Metadata): Principal {
    const token = bearer(metadata);
    const node = metadata.get('capstan-node')[0]?.toString();
    if (node !== undefined) return this.#node(node, token);
    if (sameSecret(token, this.#gatewayToken.value)) return { role: 'gateway' };
    const worker = this.worker(token);
    if (worker !== null) return worker;
    const hash = hashKey(token).toString('hex');
    const key = this.#engine.state.keys.get(hash);
    if (key === undefined) {
      const guest = this.#guests.operatorKey(hash);
      if (guest === undefined) throw new CapstanError('UNAUTHENTICATED', 'the key is not valid');
      return { ...holderOf(guest), isGuest: true };
    }
    return holderOf(key);
  }

  /**
   * Returns the worker of a token as the holder of a key for its environment; null if the token is invalid or its
   * worker is gone.
   */
  worker(token: string): AccountPrincipal | null {
    const id = claimedWorker(token);
    const worker = id === null ? undefined : this.#engine.state.workers.get(id);
    if (worker !== undefined && !this.#workerTokens.isOf(token, worker)) return null;
    const config = worker === undefined ? undefined : this.#engine.state.endpoints.get(worker.endpoint)?.config;
    if (config === undefined) return null;
    const { account, environment } = config;
    return { role: 'account', key: '', account, scope: KeyScope.ENVIRONMENT, endpoints: [], environment, workerOf: config.id };
  }

  /** Admits only a gateway. */
  gateway(metadata: Metadata): void {
    if (this.identify(metadata).role !== 'gateway') throw new CapstanError('PERMISSION_DENIED', 'this call requires the gateway token');
  }

  /**
   * Admits only a key that owns its account. Returns the account.
   * @param wanted the account that the call is about, where operators may name another one than their own.
   */
  account(metadata: Metadata, wanted = ''): string {
    const principal = this.#holder(metadata);
    if (!ownsAccount(principal.scope)) throw ownersOnly();
    const { account, isGuest } = principal;
    if (isGuest === true && (wanted === '' || wanted === account))
      throw new CapstanError('PERMISSION_DENIED', `account: ${account} is not in the cell of this scheduler`, { field: 'account' });
    return account;
  }

  /** Admits every key and session, but no worker token. */
  keyHolder(metadata: Metadata): void {
    if (this.#holder(metadata).key === '') throw new CapstanError('PERMISSION_DENIED', 'this call requires an API key, or a session');
  }

  /** Admits only a key that owns its account, of whichever cell. */
  owner(metadata: Metadata): void {
    if (!ownsAccount(this.#holder(metadata).scope)) throw ownersOnly();
  }

  /**
   * Returns who makes a call, as the audit log says it, and charges the entry's bytes to the key; operators may write as much as they
   * need. Of the address, only a gateway is believed. @throws CapstanError RATE_LIMITED.
   */
  author(metadata: Metadata, bytes: number): Pick<AuditEntry, 'key' | 'keyName' | 'address'> {
    const { key, keyName = '', account, scope } = this.#holder(metadata);
    if (scope !== KeyScope.OPERATOR) this.#auditBudget.charge({ key, account }, bytes, performance.now());
    const isForwarded = sameSecret(textOf(metadata, GATEWAY_KEY), this.#gatewayToken.value);
    return { key, keyName, address: isForwarded ? callerAddress(textOf(metadata, ADDRESS_KEY)) : '' };
  }

  /**
   * Returns a function that logs the change of a call after it is made, with the id of the caller's key, which the
   * change may revoke.
   */
  auditor(log: EngineLog, metadata: Metadata, call: string): (facts?: Readonly<Record<string, unknown>>) => void {
    const by = this.#holder(metadata).key;
    return (facts = {}) => log.info({ call, by, ...facts }, 'control plane changed');
  }

  /** Admits every key and worker token. Each reads the data that its scope permits. */
  reader(metadata: Metadata): Reader {
    const { account, scope, endpoints, environment, workerOf } = this.#holder(metadata);
    const listsJobs = ({ id }: EndpointConfig): boolean => workerOf === undefined || id === workerOf;
    switch (scope) {
      case KeyScope.OPERATOR:
        return { account, all: true, operator: true, sees: () => true, listsJobs };
      case KeyScope.ALL:
      case KeyScope.READ_ONLY:
        return { account, all: true, operator: false, sees: () => true, listsJobs };
      case KeyScope.ENDPOINTS:
        return { account, all: false, operator: false, sees: ({ id }) => endpoints.includes(id), listsJobs };
      case KeyScope.ENVIRONMENT:
        return { account, all: false, operator: false, sees: (config) => config.environment === environment, listsJobs };
      default:
        throw new CapstanError('PERMISSION_DENIED', 'the key has a scope that this scheduler does not support');
    }
  }

  /** As `reader`, for data that does not belong to single endpoints. */
  wholeReader(metadata: Metadata): Reader {
    const reader = this.reader(metadata);
    if (!reader.all)
      throw new CapstanError(
        'PERMISSION_DENIED',
        'the key is not permitted to make this call; it requires the scope ALL, OPERATOR or READ_ONLY',
      );
    return reader;
  }

  /** Admits only a key with the scope OPERATOR. */
  operator(metadata: Metadata): void {
    if (!this.isOperator(metadata))
      throw new CapstanError('PERMISSION_DENIED', 'the key is not permitted to make this call; it requires the scope OPERATOR');
  }

  isOperator(metadata: Metadata): boolean {
    const principal = this.identify(metadata);
    return principal.role === 'account' && principal.scope === KeyScope.OPERATOR;
  }

  /**
   * Authenticates a caller that puts or gets blobs: a gateway, a node, or the holder of a key that owns its account.
   */
  blobs(metadata: Metadata): BlobCaller {
    const principal = this.identify(metadata);
    switch (principal.role) {
      case 'node':
        return { kind: 'node', node: principal.node };
      case 'gateway':
        return { kind: 'gateway' };
      case 'account':
        return { kind: 'account', account: this.account(metadata) };
    }
  }

  /** Admits only a node. Returns its id. */
  node(metadata: Metadata): string {
    const principal = this.identify(metadata);
    if (principal.role !== 'node') throw new CapstanError('PERMISSION_DENIED', 'this call requires the identity of a node');
    return principal.node;
  }

  /**
   * Admits a caller with an account. A gateway forwards its callers' own keys; its own token permits only what the
   * gateway itself needs.
   */
  #holder(metadata: Metadata): AccountPrincipal {
    const principal = this.identify(metadata);
    if (principal.role === 'account') return principal;
    const who = principal.role === 'node' ? 'nodes may not use the control plane' : 'the gateway token does not permit this call';
    throw new CapstanError('PERMISSION_DENIED', `${who}; use an API key`);
  }

  #node(id: string, secret: string): Principal {
    const { nodes, removedNodes, movedNodes } = this.#engine.state;
    const removed = removedNodes.get(id);
    if (removed !== undefined && sameHash(hashKey(secret), Buffer.from(removed.secretHash, 'hex')))
      throw new CapstanError('NODE_REMOVED', `the node ${removed.name} was removed`);
    const moved = movedNodes.get(id);
    // Only the node itself learns where it belongs.
    if (moved !== undefined && sameHash(hashKey(secret), Buffer.from(moved.secretHash, 'hex')))
      throw new CapstanError('CONFLICT', `the node ${moved.name} was moved to the cell ${moved.movedTo}`, { cell: moved.movedTo });
    const known = nodes.get(id);
    if (known === undefined || !sameHash(hashKey(secret), Buffer.from(known.config.secretHash, 'hex')))
      throw new CapstanError('UNAUTHENTICATED', 'the identity of the node is unknown; join again');
    return { role: 'node', node: id };
  }
}

function ownersOnly(): CapstanError {
  return new CapstanError('PERMISSION_DENIED', 'the key is not permitted to make this call; it requires the scope ALL or OPERATOR');
}

function holderOf({ hash, sessionOf, name, account, scope, endpoints, environment }: KeyRow): AccountPrincipal {
  return { role: 'account', key: keyId(sessionOf ?? hash), keyName: name, account, scope, endpoints, environment };
}

function textOf(metadata: Metadata, name: string): string {
  return metadata.get(name)[0]?.toString() ?? '';
}

/** The key of a call. UNAUTHENTICATED without one. */
export function bearer(metadata: Metadata): string {
  const value = textOf(metadata, 'authorization');
  const token = value.replace(/^Bearer +/i, '');
  if (token === '') throw new CapstanError('UNAUTHENTICATED', 'a key is required: metadata authorization: Bearer <key>');
  return token;
}
