/** Version of this SDK, sent with every request. */
export const VERSION = "0.1.0";
