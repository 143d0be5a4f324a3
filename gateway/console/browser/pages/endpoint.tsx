import { Page } from "../parts/page.js";

export const EndpointPage = () => <Page title="Endpoint">…</Page>;
