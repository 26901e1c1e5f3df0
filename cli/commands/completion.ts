import { CapstanError } from '../../lib/errors.ts';
import type { Command } from '../command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** `capstan completion <shell>`: prints a script that completes the commands which `allCommands` loads. */
export const completion = (allCommands: () => Promise<readonly Command[]>): Command => ({
  name: 'completion',
  summary: 'Print a script that completes commands and options in your shell.',
  arguments: [{ name: 'shell', description: SHELLS.join(', ') }],
  async run({ args, terminal }) {
    const shell = SHELLS.find((each) => each === args[0]);
    if (shell === undefined) throw new CapstanError('INVALID_ARGUMENT', `shell: must be one of ${SHELLS.join(', ')}`, { field: 'shell' });
    const { completionScript } = await import('../completion.ts');
    terminal.data(completionScript(shell, await allCommands()));
    const line = {
      bash: 'source <(capstan completion bash)',
      zsh: 'source <(capstan completion zsh)',
      fish: 'capstan completion fish | source',
    };
    terminal.hint(`in your shell’s start file: ${line[shell]}`);
  },
});
