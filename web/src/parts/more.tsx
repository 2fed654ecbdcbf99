import { useEffect, useRef } from "react";

import type { Refused } from "../data/request";

interface MoreProps {
  of: { isEnd: boolean; isLoadingMore: boolean; error: Refused | null; more: () => void };
}

/** Below a list: the next page is read when its end comes into sight, or by the button. */
export function More({ of: { isEnd, isLoadingMore, error, more } }: MoreProps) {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = end.current;
    if (!at || error) return undefined;
    const seen = new IntersectionObserver((all) => all.some((each) => each.isIntersecting) && more(), {
      rootMargin: "300px",
    });
    seen.observe(at);
    return () => seen.disconnect();
  }, [isEnd, isLoadingMore, error, more]);
  if (isEnd) return null;
  return (
    <div className="item" ref={end}>
      <button type="button" className="btn small fit" disabled={isLoadingMore} onClick={more}>
        {isLoadingMore ? "Loading more" : error ? `${error.message} Try again` : "Show more"}
      </button>
    </div>
  );
}
