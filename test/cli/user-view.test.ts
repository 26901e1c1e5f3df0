/** The tool as its user meets it, from the first project to a call, on one stack. */
import './call.ts';
import './deploy-wait.ts';
import './tutorial.ts';
