import { Page } from "../parts/page.js";

export const EmailsPage = () => <Page title="Emails">…</Page>;
