import { Page } from "../parts/page.js";

export const WebhooksPage = () => <Page title="Webhooks">…</Page>;
