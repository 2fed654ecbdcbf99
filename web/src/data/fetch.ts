/** The fetch of shapes: live requests share one socket, and the page knows whether it is connected. */
import { multiplexed } from "../../packages/fetch-client/index.js";
import { at } from "./base";
import { answered, unanswered } from "./connection";

const shared = multiplexed(at("v1/multiplex"));

export const shapeFetch: typeof fetch = async (input, init) => {
  try {
    const response = await shared(input, { ...init, credentials: "same-origin" });
    if (response.status < 500) answered();
    else unanswered();
    return response;
  } catch (error) {
    if (!init?.signal?.aborted) unanswered();
    throw error;
  }
};
