/** Files of a new project in either language. */

export const ENV_EXAMPLE = `# Copy to .env. Variables of the shell take precedence.
# The key of your account; on the host that runs \`capstan up\` the tool finds it itself.
SERVICE_API_KEY=
`;

export function readme(name: string, ending: 'py' | 'ts'): string {
  const install =
    ending === 'py' ? '`pip install <checkout>/sdk/python`' : '`npm install <checkout>/sdk/typescript/dist` (built by `npm run sdk` there)';
  return `# ${name}

Three worker files, each with an endpoint of its own:

| File | Endpoint | Kind |
|---|---|---|
| \`gpu_worker.${ending}\` | \`${name}-embed\` | queue; set \`gpu\` where a host has one |
| \`cpu_worker.${ending}\` | \`${name}-search\` | queue; calls the function of \`gpu_worker\` |
| \`lb_worker.${ending}\` | \`${name}-api\` | load-balanced: plain HTTP routes |

\`\`\`
capstan run       # serves them here: http://localhost:8888/docs
capstan deploy    # builds, uploads, and prints how to call them
\`\`\`

Neither needs more than this folder. For your editor, and to run the files yourself, install the SDK from Capstan's checkout:
${install}.
`;
}
