import { Page } from "../parts/page.js";

export const OverviewPage = () => <Page title="Overview">…</Page>;
