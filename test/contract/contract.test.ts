/** The rows of the HTTP API that a stack with its default settings shows; those of expiry (`time.test.ts`) need settings of their own. */
import './events.ts';
import './limits.ts';
import './operations.ts';
import './submission.ts';
