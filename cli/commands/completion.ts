import type { Command, CommandNode } from '../command/command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** The line for the shell's start file. */
const INSTALL: Readonly<Record<Shell, string>> = {
  bash: 'source <(capstan completion bash)',
  zsh: 'source <(capstan completion zsh)',
  fish: 'capstan completion fish | source',
};

/** `capstan completion <shell>`: prints a script that completes the commands which `allCommands` loads. */
export const completion = (allCommands: () => Promise<readonly CommandNode[]>): Command => ({
  name: 'completion',
  summary: 'Print a shell script that completes commands and options.',
  arguments: [{ name: 'shell', description: 'name of the shell', choices: SHELLS }],
  examples: ['completion bash'],
  async run({ args, terminal }) {
    const shell = SHELLS.find((each) => each === args[0]) ?? 'bash';
    const { completionScript } = await import('../command/completion.ts');
    terminal.data(completionScript(shell, await allCommands()));
    terminal.hint(`add this to the startup file of your shell: ${INSTALL[shell]}`);
  },
});
