/** Version of this SDK, sent with every request. */
export const VERSION = "1.1.0";
