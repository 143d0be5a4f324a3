import { Page } from "../parts/page.js";

export const ListingsPage = () => <Page title="Listings">…</Page>;
