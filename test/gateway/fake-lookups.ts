/** The look-ups of the fake scheduler's ControlService: keys, tokens of workers, endpoints by id and by name. */
import type { EventEmitter } from 'node:events';

import { status } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import type { EndpointEntry, KeyEntry } from '../../proto/gen/capstan/v1/control.ts';

/** What the look-ups read of the scheduler that they belong to, at each call, and what they write down. */
export interface LookupHolder {
  readonly keys: ReadonlyMap<string, KeyEntry>;
  readonly workerTokens: ReadonlyMap<string, KeyEntry>;
  readonly endpoints: ReadonlyMap<string, EndpointEntry>;
  readonly lookups: string[];
  readonly lookupsMayEnd: Promise<void>;
  readonly knowsNames: boolean;
  readonly events: EventEmitter;
}

export function lookups(scheduler: LookupHolder): Readonly<Record<string, unknown>> {
  return {
    lookupKey: (call: { request: { hash: Buffer; workerToken: string } }, callback: (error: unknown, value?: unknown) => void) => {
      const { workerToken } = call.request;
      if (workerToken !== '') {
        scheduler.lookups.push('worker');
        const worker = scheduler.workerTokens.get(workerToken);
        if (worker === undefined) callback(toStatus(new CapstanError('NOT_FOUND', 'the worker does not exist')));
        else callback(null, worker);
        return;
      }
      const name = call.request.hash.toString('hex');
      scheduler.lookups.push(`key/${name}`);
      const found = scheduler.keys.get(name);
      scheduler.events.emit('lookup');
      void scheduler.lookupsMayEnd.then(() => {
        if (found === undefined) callback(toStatus(new CapstanError('NOT_FOUND', 'no such key')));
        else callback(null, found);
      });
    },
    lookupEndpoint: (call: { request: { endpointId: string } }, callback: (error: unknown, value?: unknown) => void) => {
      scheduler.lookups.push(`endpoint/${call.request.endpointId}`);
      const found = scheduler.endpoints.get(call.request.endpointId);
      if (found === undefined) callback(toStatus(new CapstanError('NOT_FOUND', 'no such endpoint')));
      else callback(null, found);
    },
    lookupEndpointName: (
      { request: { accountId, name } }: { request: { accountId: string; name: string } },
      callback: (error: unknown, value?: unknown) => void,
    ) => {
      scheduler.lookups.push(`name/${accountId}/${name}`);
      if (!scheduler.knowsNames) {
        callback({ code: status.UNIMPLEMENTED, details: 'The server does not implement the method LookupEndpointName' });
        return;
      }
      const endpoints = [...scheduler.endpoints.values()].filter((each) => each.accountId === accountId && each.name === name);
      callback(null, { endpoints });
    },
  };
}
