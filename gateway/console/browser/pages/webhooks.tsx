import { Endpoints } from "../parts/endpoints.js";
import { Page } from "../parts/page.js";

export const WebhooksPage = () => (
  <Page title="Webhooks">
    <Endpoints />
  </Page>
);
