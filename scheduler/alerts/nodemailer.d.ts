/** The part of `nodemailer` that is used. */
declare module 'nodemailer' {
  interface Transport {
    sendMail(mail: { readonly from: string; readonly to: string; readonly subject: string; readonly text: string }): Promise<unknown>;
    close(): void;
  }
  export function createTransport(settings: {
    readonly url: string;
    readonly requireTLS: boolean;
    readonly connectionTimeout: number;
    readonly greetingTimeout: number;
    readonly socketTimeout: number;
  }): Transport;
}
