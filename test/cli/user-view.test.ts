/** The tool as its user meets it, from the first project to deployments that wait, on one stack. */
import './deploy-wait.ts';
import './tutorial.ts';
