/** Version of the interface: what `/v1` has grown to. */
export const API_VERSION = "1.0.0";
