/** Secrets of the account as values of `env`. */

/**
 * Returns the value of `env` that stands for a secret of the account (`capstan secret set NAME`). Workers see the secret's value in the
 * variable: it is in no source, manifest or build. In the development server it is the variable `NAME` of the shell or of `.env`.
 *
 *     endpoint({ name: 'chat', env: { HF_TOKEN: secret('HF_TOKEN') } }, …)
 *
 * @throws TypeError for a name that is not of letters, digits and underscores.
 */
export function secret(name: string): string {
  if (!/^[A-Za-z_]\w{0,127}$/.test(name))
    throw new TypeError(
      `secret: ${JSON.stringify(name)} must be a name of 1 to 128 letters, digits and underscores, and must not start with a digit`,
    );
  return `{{ CAPSTAN_SECRET_${name} }}`;
}
