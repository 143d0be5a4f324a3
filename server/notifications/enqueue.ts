/** The one task: tell the guest that a form awaits them. The statement that inserts the form adds its job. */
export const FORM_CREATED = "form-created";
