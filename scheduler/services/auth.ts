/** Who is calling: the credentials of docs/architecture.md, checked against hashes. */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../proto/errors.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { Engine } from '../engine/engine.ts';
import { hashKey, sameHash, sameSecret } from '../secrets/hash.ts';

/** A caller that was recognised. */
export type Principal =
  | { readonly role: 'gateway' }
  | { readonly role: 'account'; readonly account: string }
  | { readonly role: 'node'; readonly node: string };

/** The account that a fresh installation has. */
export const defaultAccount = 'default';

export class Authorizer {
  readonly #engine: Engine;
  readonly #gatewayToken: string;

  constructor(engine: Engine, gatewayToken: string) {
    this.#engine = engine;
    this.#gatewayToken = gatewayToken;
  }

  /** The caller behind the metadata. UNAUTHENTICATED when it shows nothing valid. */
  identify(metadata: Metadata): Principal {
    const token = bearer(metadata);
    const node = metadata.get('capstan-node')[0]?.toString();
    if (node !== undefined) return this.#node(node, token);
    if (sameSecret(token, this.#gatewayToken)) return { role: 'gateway' };
    const key = this.#engine.image.keys.get(hashKey(token).toString('hex'));
    if (key === undefined) throw new CapstanError('UNAUTHENTICATED', 'the key is not valid');
    if (key.scope !== KeyScope.ALL)
      throw new CapstanError('PERMISSION_DENIED', 'the key has no permission for this call: it needs the scope ALL');
    return { role: 'account', account: key.account };
  }

  /** Only a gateway may go on. */
  gateway(metadata: Metadata): void {
    if (this.identify(metadata).role !== 'gateway') throw new CapstanError('PERMISSION_DENIED', 'this call needs the gateway token');
  }

  /** Only a gateway or the owner of an account may go on; answers the account. */
  account(metadata: Metadata): string {
    const principal = this.identify(metadata);
    if (principal.role === 'node') throw new CapstanError('PERMISSION_DENIED', 'nodes may not use the control plane');
    return principal.role === 'gateway' ? defaultAccount : principal.account;
  }

  /** Only the node itself may go on; answers its id. */
  node(metadata: Metadata): string {
    const principal = this.identify(metadata);
    if (principal.role !== 'node') throw new CapstanError('PERMISSION_DENIED', 'this call needs the identity of a node');
    return principal.node;
  }

  #node(id: string, secret: string): Principal {
    const known = this.#engine.image.nodes.get(id);
    if (known === undefined || !sameHash(hashKey(secret), Buffer.from(known.config.secretHash, 'hex')))
      throw new CapstanError('UNAUTHENTICATED', 'the identity of the node is not known here: join again');
    return { role: 'node', node: id };
  }
}

function bearer(metadata: Metadata): string {
  const value = metadata.get('authorization')[0]?.toString() ?? '';
  const token = value.replace(/^Bearer +/i, '');
  if (token === '') throw new CapstanError('UNAUTHENTICATED', 'no key was sent: metadata authorization: Bearer <key>');
  return token;
}
