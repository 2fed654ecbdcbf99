/** The fetch of shapes: with the cookie, and noted by the connection mark. */
import { answered, unanswered } from "./connection";

export const shapeFetch: typeof fetch = async (input, init) => {
  try {
    const response = await fetch(input, { ...init, credentials: "same-origin" });
    if (response.status < 500) answered();
    else unanswered();
    return response;
  } catch (error) {
    if (!init?.signal?.aborted) unanswered();
    throw error;
  }
};
