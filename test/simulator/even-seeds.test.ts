import test from 'ava';

import { everyInvariantHolds } from './fault-profile.ts';

test('every invariant holds in every simulated world, whatever breaks: even seeds', (t) => everyInvariantHolds(t, 0));
