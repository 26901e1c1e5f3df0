/** Options of commands: how they are declared, and reading their values. */
export interface OptionSpec {
  /** As commander reads it: `--json`, `--env <environment>`. */
  readonly flags: string;
  readonly description: string;
}

/** Values by the option's long name in camel case; true for an option that takes none. */
export type OptionValues = Readonly<Record<string, string | boolean | undefined>>;

/** A text option; undefined when it was not given. */
export function textOption(options: OptionValues, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

export function flagOption(options: OptionValues, name: string): boolean {
  return options[name] === true;
}
