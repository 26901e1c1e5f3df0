import test from 'ava';

import { everyInvariantHolds } from './fault-profile.ts';

test('every invariant holds in every simulated world, whatever breaks: odd seeds', (t) => everyInvariantHolds(t, 1));
