/** Clients of other services for Node, whose calls go to one stack. */
import './openai.ts';
import './runpod-sdk.ts';
