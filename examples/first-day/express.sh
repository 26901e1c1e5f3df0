#!/usr/bin/env bash
# An Express application, from an empty folder to an answer.
set -euo pipefail

echo '{ "type": "module", "dependencies": { "express": "^5" } }' > package.json
cat > server.ts <<'TS'
import { endpoint } from '@capstan/sdk';
import express from 'express';

const app = express();
app.use(express.json());
app.post('/sums', (request, response) => {
  response.json({ sum: request.body.a + request.body.b });
});

export default endpoint({ name: 'sums', app });
TS

capstan deploy
curl -s "$CAPSTAN_URL/lb/sums/sums" -H "Authorization: Bearer $SERVICE_API_KEY" --json '{"a": 2, "b": 3}'
