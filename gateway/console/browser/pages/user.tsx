import { Page } from "../parts/page.js";

export const UserPage = () => <Page title="User">…</Page>;
