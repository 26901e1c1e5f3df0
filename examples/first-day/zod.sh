#!/usr/bin/env bash
# A TypeScript function with a zod schema, from an empty folder to an answer.
set -euo pipefail

echo '{ "type": "module", "dependencies": { "zod": "^4" } }' > package.json
cat > classify.ts <<'TS'
import { endpoint } from '@capstan/sdk';
import { z } from 'zod';

const Request = z.object({ text: z.string().min(1), top: z.int().default(1) });

export const classify = endpoint({ name: 'classify', workers: [0, 1], schema: Request }, ({ text, top }) =>
  text.split(' ').toSorted((a, b) => b.length - a.length).slice(0, top),
);
TS

capstan deploy
capstan call classify text="the longest word wins"
