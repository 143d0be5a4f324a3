import { Page } from "../parts/page.js";

export const ListingPage = () => <Page title="Listing">…</Page>;
