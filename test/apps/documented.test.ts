/** The applications of examples/ that the docs show, on one stack: packages of a registry come once. */
import './first-day.ts';
import './recipes.ts';
import './web-apps.ts';
