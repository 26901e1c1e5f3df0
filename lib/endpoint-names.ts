/** The form of the names and ids of endpoints. A URL holds either, so no name may have the form of an id. */

export const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const NAME_RULE = 'must be 1 to 64 letters, digits, dots, dashes or underscores, and start with a letter or digit';

/** Characters of an endpoint's id. */
export const ENDPOINT_ID_LENGTH = 14;

/** An id of an endpoint has at least one digit: a name of 14 letters is valid. */
export const ENDPOINT_ID = /^(?=.*\d)[a-z][a-z0-9]{13}$/;
export const NOT_AN_ID_RULE = `must not have the form of an endpoint's id (${ENDPOINT_ID_LENGTH} lower-case letters and digits)`;
