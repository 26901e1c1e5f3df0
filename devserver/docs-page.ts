/** The page that shows the document of the project under development. */
import { REFERENCE_SETTINGS } from '../lib/reference-script.ts';

export const SCRIPT_PATH = '/docs/js/scalar.js';

export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Endpoints</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="reference"></div>
<script src="${SCRIPT_PATH}"></script>
<script>Scalar.createApiReference('#reference', ${JSON.stringify({ url: '/openapi.json', ...REFERENCE_SETTINGS })});</script>
</body>
</html>
`;
