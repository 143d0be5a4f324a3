import { Page } from "../parts/page.js";

export const FormPage = () => <Page title="Form">…</Page>;
