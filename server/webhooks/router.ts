import { inAppProcedure, router } from "../trpc.js";
import { countDeliveries, listDeliveries, redeliver, testEndpoint } from "./deliveries.js";
import {
  createEndpoint,
  deleteEndpoint,
  disableEndpoint,
  enableEndpoint,
  getEndpoint,
  listEndpoints,
  rotateSecret,
  updateEndpoint,
} from "./endpoints.js";
import * as schema from "./schema.js";

/** Webhook endpoints and their deliveries (gateway/docs/contract.md#webhooks). A user has its own, the operator any. */
export const webhooksRouter = router({
  /**
   * Creates an endpoint, at most 20 per owner. The secret is returned only once. Without `userId` the operator's, which gets
   * the events of all forms. Errors: VALIDATION_ERROR.
   */
  create: inAppProcedure.input(schema.createInput).output(schema.createdEndpoint).mutation(createEndpoint),
  /** Endpoints, oldest first. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: inAppProcedure.input(schema.listInput).output(schema.endpointPage).query(listEndpoints),
  /** An endpoint. Errors: RESOURCE_NOT_FOUND. */
  get: inAppProcedure.input(schema.getInput).output(schema.endpointOut).query(getEndpoint),
  /** Changes the fields that are given; deliveries that wait are sent to the new URL. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR. */
  update: inAppProcedure.input(schema.updateInput).output(schema.endpointOut).mutation(updateEndpoint),
  /** Enables an endpoint. Events from while it was disabled are not sent. Errors: RESOURCE_NOT_FOUND. */
  enable: inAppProcedure.input(schema.getInput).output(schema.endpointOut).mutation(enableEndpoint),
  /** Disables an endpoint. The deliveries that wait for it fail. Errors: RESOURCE_NOT_FOUND. */
  disable: inAppProcedure.input(schema.getInput).output(schema.endpointOut).mutation(disableEndpoint),
  /** Replaces the secret; the old one also signs for 24 hours. Errors: RESOURCE_NOT_FOUND. */
  rotateSecret: inAppProcedure.input(schema.getInput).output(schema.rotatedSecret).mutation(rotateSecret),
  /** Sends a `webhook.test` event. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (it is disabled). */
  test: inAppProcedure.input(schema.getInput).output(schema.delivery).mutation(testEndpoint),
  /** Deletes an endpoint with its deliveries. Errors: RESOURCE_NOT_FOUND. */
  delete: inAppProcedure.input(schema.getInput).output(schema.endpointOut).mutation(deleteEndpoint),
  /**
   * Deliveries of an endpoint, or those in one state, newest first. For the operator also those of all endpoints, of a form or
   * in one state other than `sent`. Errors: INVALID_CURSOR, RESOURCE_NOT_FOUND, VALIDATION_ERROR.
   */
  deliveries: inAppProcedure.input(schema.deliveriesInput).output(schema.deliveryPage).query(listDeliveries),
  /**
   * Number of deliveries of an endpoint per state other than `sent`; 10,000 means at least as many. For the operator also of all
   * endpoints. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR.
   */
  count: inAppProcedure.input(schema.countInput).output(schema.deliveryCounts).query(countDeliveries),
  /**
   * Sends deliveries that have ended or are retried again, now and with the same `webhook-id`: one, all failed ones, or those of
   * events in a time range. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (it is disabled, or has no such delivery).
   */
  redeliver: inAppProcedure.input(schema.redeliverInput).output(schema.redelivered).mutation(redeliver),
});
