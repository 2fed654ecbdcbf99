export interface Options {
  /** Sends what is no live request, and everything while no socket can be opened. */
  fetch?: typeof fetch;
  /** The class of sockets, where the platform has none. */
  WebSocket?: typeof WebSocket;
}

/**
 * Return a fetch whose live requests share one WebSocket.
 *
 * A request's bearer token is that of the socket; without one, the cookie of the page is.
 *
 * @param url the address of the server's `/v1/multiplex`, with http or ws.
 */
export function multiplexed(url: string | URL, options?: Options): typeof fetch;
