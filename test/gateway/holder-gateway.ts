import { makeListing } from "../support/factories.js";
import { type HttpRequest, startTestGateway } from "../support/gateway.js";
import { uniqueStay } from "../support/stays.js";

/** Starts a gateway with a key holder who has a listing. `listing` overrides its fields. */
export async function startHolderGateway(
  settings: Record<string, string | number> = {},
  listing: Parameters<typeof makeListing>[2] = {},
) {
  const gateway = await startTestGateway(settings);
  const services = await gateway.services();
  const holder = await gateway.addKeyHolder();
  const { id: listingId } = await makeListing(services, holder.userId, listing);
  /** Sends a request of the holder, by default a list of forms. */
  const send = (sent: Partial<HttpRequest> = {}) => gateway.request({ path: "/v1/forms", key: holder.key, ...sent });
  /** Creates a form, by default one that no other test creates. */
  const create = (body: unknown = uniqueStay(listingId), headers: Record<string, string> = {}) =>
    send({ method: "POST", body, headers });
  /** The head of a create as bytes. */
  const headOfCreate = (...headers: string[]) =>
    ["POST /v1/forms HTTP/1.1", "Host: x", `X-API-Key: ${holder.key}`, "Content-Type: application/json"]
      .concat(headers, "", "")
      .join("\r\n");
  /** A create as bytes, and the length of its body. */
  const rawCreate = () => {
    const body = JSON.stringify(uniqueStay(listingId));
    return { body, head: headOfCreate(`Content-Length: ${body.length}`) };
  };
  return { gateway, services, holder, listingId, send, create, headOfCreate, rawCreate };
}
