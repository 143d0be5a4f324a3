/** This SDK's version, as sent with every request. */
export const VERSION = "0.1.0";
