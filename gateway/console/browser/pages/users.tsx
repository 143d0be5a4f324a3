import { Page } from "../parts/page.js";

export const UsersPage = () => <Page title="Users">…</Page>;
