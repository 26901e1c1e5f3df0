import { CapstanError } from '../../proto/errors.ts';
import type { Command } from '../command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** `capstan completion <shell>`: a script that completes commands and options. */
export const completion: Command = {
  name: 'completion',
  summary: 'Print a script that completes commands and options in your shell.',
  arguments: [{ name: 'shell', description: SHELLS.join(', ') }],
  async run({ args, terminal }) {
    const shell = SHELLS.find((each) => each === args[0]);
    if (shell === undefined) throw new CapstanError('INVALID_ARGUMENT', `shell: must be one of ${SHELLS.join(', ')}`, { field: 'shell' });
    const [{ completionScript }, { allCommands }] = await Promise.all([import('../completion.ts'), import('../commands.ts')]);
    terminal.data(completionScript(shell, await allCommands()));
    const line = {
      bash: 'source <(capstan completion bash)',
      zsh: 'source <(capstan completion zsh)',
      fish: 'capstan completion fish | source',
    };
    terminal.hint(`in your shell’s start file: ${line[shell]}`);
  },
};
