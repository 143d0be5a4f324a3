import { Page } from "../parts/page.js";

export const FindPage = () => <Page title="Find">…</Page>;
