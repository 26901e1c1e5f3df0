/**
 * Calls of ControlService with the caller's own key, at the right cell: that of the caller's account, or for operators the
 * one that has what the call is about. A scheduler checks the key and its scope, also of operators from another cell.
 */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { KeyScope, type ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import type { CellLink } from '../cells/cell-link.ts';
import type { Cells } from '../cells/cells.ts';
import type { Key } from '../directory/directory.ts';
import { callMetadata } from '../grpc/connection.ts';
import { callOnce, callUnary, type UnaryMethod } from '../jobs/unary.ts';

export interface ControlCallsOptions {
  readonly cells: Cells;
  readonly key: Key;
  /** Plaintext of the caller's key. */
  readonly text: string;
  readonly cellOfAccount: (account: string) => string | undefined;
  /** The caller's key where its account lives by now, if the owner of its cell does not know it; undefined without such. */
  readonly keyElsewhere: (key: Key) => Promise<Key | undefined>;
  readonly timeoutMs: number;
  /** The caller's, for the audit log. */
  readonly address?: string;
  /** A call whose response was lost is not made again. */
  readonly once?: boolean;
}

type Method<Request, Reply> = (control: ControlServiceClient) => UnaryMethod<Request, Reply>;

/** A reply, and the cell that it is from. */
export interface Placed<Reply> {
  readonly cell: string;
  readonly reply: Reply;
}

export class ControlCalls {
  readonly #options: ControlCallsOptions;
  #own: CellLink;

  constructor(options: ControlCallsOptions) {
    this.#options = options;
    this.#own = options.cells.ofKey(options.key);
  }

  /** For changes: a second key, release or rotation is not what was asked for. */
  get changing(): ControlCalls {
    return new ControlCalls({ ...this.#options, once: true });
  }

  /** Longest time of a call, ms. */
  get timeoutMs(): number {
    return this.#options.timeoutMs;
  }

  /** At the cell of the caller's account. */
  async own<Request, Reply>(method: Method<Request, Reply>, request: Request): Promise<Reply> {
    return (await this.#at(this.#own, method, request)).reply;
  }

  /** At a cell that the caller names; empty for that of its account. Only operators get to another one. */
  async at<Request, Reply>(cell: string, method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    const link = cell === '' ? this.#own : this.#reached().find(({ name }) => name === cell);
    if (link !== undefined) return this.#at(link, method, request);
    if (this.#isOperator)
      throw new CapstanError('NOT_FOUND', `cell: ${cell} does not exist, or this gateway does not know it yet`, { field: 'cell' });
    throw new CapstanError('PERMISSION_DENIED', 'cell: a cell other than that of the key requires the scope OPERATOR', {
      field: 'cell',
    });
  }

  /** At the cell in which an account lives; empty or the caller's own: its cell. */
  async ofAccount<Request, Reply>(account: string, method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    const { key, cellOfAccount } = this.#options;
    if (account === '' || account === key.accountId || !this.#isOperator) return this.#at(this.#own, method, request);
    const hint = cellOfAccount(account);
    return this.#first(hint, method, request);
  }

  /** At the first cell that knows what the call names. */
  async any<Request, Reply>(method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    return this.#first(undefined, method, request);
  }

  /**
   * At every cell that the caller may see. With several cells those without an owner are an error: a list that lacks some
   * would look complete.
   */
  async all<Request, Reply>(method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>[]> {
    const links = this.#reached();
    return Promise.all(
      links.map(async (link) => {
        try {
          return await this.#at(link, method, request);
        } catch (error) {
          if (links.length === 1 || !(error instanceof CapstanError) || error.code !== 'UNAVAILABLE') throw error;
          throw new CapstanError('UNAVAILABLE', `cell ${link.name}: ${error.message}`, { retryAfterMs: 1000, cause: error });
        }
      }),
    );
  }

  get #isOperator(): boolean {
    return this.#options.key.scope === KeyScope.OPERATOR;
  }

  /** The own cell first. */
  #reached(): readonly CellLink[] {
    const { cells } = this.#options;
    return this.#isOperator ? [this.#own, ...cells.all.filter((link) => link !== this.#own)] : [this.#own];
  }

  /** What one cell does not know, another one may. A cell that does not answer counts only if no other knows it. */
  async #first<Request, Reply>(hint: string | undefined, method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    const links = this.#reached().toSorted((a, b) => Number(b.name === hint) - Number(a.name === hint));
    let failure: CapstanError | undefined;
    for (const link of links) {
      try {
        return await this.#at(link, method, request);
      } catch (error) {
        if (!(error instanceof CapstanError) || (error.code !== 'NOT_FOUND' && error.code !== 'UNAVAILABLE')) throw error;
        // It knows what the call is about, and does not know the cell to which that is to move.
        if (error.field === 'cell') throw error;
        if (failure === undefined || error.code === 'UNAVAILABLE') failure = error;
        // It may have been done before its answer was lost: it is not done elsewhere, too.
        if (error.code === 'UNAVAILABLE' && link.name === hint) throw error;
      }
    }
    throw failure ?? new CapstanError('INTERNAL', 'no cell is connected');
  }

  /** An account may have left the cell in which the gateway looked its key up. */
  async #at<Request, Reply>(link: CellLink, method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    try {
      return await this.#call(link, method, request);
    } catch (error) {
      if (link !== this.#own || !(error instanceof CapstanError) || error.code !== 'UNAUTHENTICATED') throw error;
      const { cells, key, keyElsewhere } = this.#options;
      const there = await keyElsewhere(key);
      if (there === undefined) throw error;
      this.#own = cells.ofKey(there);
      return this.#call(this.#own, method, request);
    }
  }

  async #call<Request, Reply>(link: CellLink, method: Method<Request, Reply>, request: Request): Promise<Placed<Reply>> {
    const call = method(link.control);
    const make = this.#options.once === true ? callOnce : callUnary;
    const reply = await make<Request, Reply>(
      (...args) => call.apply(link.control, args),
      request,
      this.#metadata(link),
      this.#options.timeoutMs,
    );
    return { cell: link.name, reply };
  }

  #metadata({ name, token }: CellLink): Metadata {
    const { text, address } = this.#options;
    return callMetadata(text, true, name, address === undefined ? undefined : { address, gatewayToken: token });
  }
}
