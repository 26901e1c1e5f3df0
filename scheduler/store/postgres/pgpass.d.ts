/** The part of `pgpass` that is used; it has no types of its own. */
declare module 'pgpass' {
  export default function pgpass(
    connecting: { readonly host: string; readonly port: number; readonly user: string; readonly database: string },
    done: (password: string | undefined) => void,
  ): void;
}
