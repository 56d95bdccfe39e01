/**
 * Records as dispatch sees them.
 *
 * @module
 */

import type { DispatchRequest } from "../../lib/message/dispatch_request.ts";

/** A plain message of queue T/0: 100 bytes, without properties. */
export function plainRequest(fields: Partial<DispatchRequest>): DispatchRequest {
  return {
    topic: "T",
    queueId: 0,
    physicalOffset: 0,
    size: 100,
    tagsCode: 0,
    storeTimestamp: 0,
    queueOffset: 0,
    sysFlag: 0,
    keys: undefined,
    uniqKey: undefined,
    tags: undefined,
    multiDispatch: undefined,
    batchSize: 1,
    propertiesText: "",
    ...fields,
  };
}
