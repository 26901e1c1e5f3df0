/** Sessions of the console over gRPC. The token of a session is in one reply and nowhere else. */
import { randomBytes } from 'node:crypto';

import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { SESSION_PREFIX } from '../../lib/session-token.ts';
import type { ControlServiceServer, SessionInfo } from '../../proto/gen/capstan/v1/control.ts';
import { keyId } from '../../lib/key-id.ts';
import { SESSION_IDLE_MS } from '../core/control/key-use.ts';
import type { KeyRow, SessionRow } from '../core/state/control-rows.ts';
import { hashKey } from '../secrets/hash.ts';
import { bearer } from './auth.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

const TOKEN_BYTES = 32;

export function consoleSessionHandlers({
  engine,
  auth,
  log,
  clock,
}: ControlDeps): Pick<ControlServiceServer, 'createSession' | 'getSession' | 'endSession'> {
  /** Returns the key or session of this cell whose text the caller has. */
  function held(metadata: Metadata): KeyRow {
    auth.identify(metadata);
    const key = engine.state.keys.get(hashKey(bearer(metadata)).toString('hex'));
    if (key === undefined) throw new CapstanError('PERMISSION_DENIED', 'this call requires an API key of this cell, or a session');
    return key;
  }

  return {
    createSession: unary(log, 'CreateSession', async (_request, metadata) => {
      const key = held(metadata);
      if (key.sessionOf !== undefined)
        throw new CapstanError('PERMISSION_DENIED', 'a session cannot open another session; this call requires an API key');
      const token = `${SESSION_PREFIX}${randomBytes(TOKEN_BYTES).toString('base64url')}`;
      const { wall } = clock.now();
      const expiresAt = wall + SESSION_IDLE_MS;
      const hash = hashKey(token).toString('hex');
      const session: SessionRow = { ...key, hash, sessionOf: key.hash, prefix: '', createdAt: wall, usedAt: null, expiresAt };
      await engine.command(
        { kind: 'put-session', session },
        entryOf(auth, metadata, { action: 'signIn', object: 'console', account: key.account }),
      );
      log.info({ call: 'CreateSession', by: keyId(key.hash) }, 'a session of the console began');
      return { token, session: sessionInfo(session) };
    }),
    getSession: unary(log, 'GetSession', (_request, metadata) => sessionInfo(held(metadata))),
    endSession: unary(log, 'EndSession', async (_request, metadata) => {
      const session = held(metadata);
      if (session.sessionOf === undefined) throw new CapstanError('PERMISSION_DENIED', 'this call requires the token of a session');
      const audit = entryOf(auth, metadata, { action: 'signOut', object: 'console', account: session.account });
      await engine.command({ kind: 'end-session', hash: session.hash }, audit);
      return {};
    }),
  };
}

function sessionInfo({ account, scope, hash, sessionOf, name }: KeyRow): SessionInfo {
  return { accountId: account, scope, keyId: keyId(sessionOf ?? hash), keyName: name };
}
