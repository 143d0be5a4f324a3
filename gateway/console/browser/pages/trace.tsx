import { Page } from "../parts/page.js";

export const TracePage = () => <Page title="Trace">…</Page>;
