/** The rows of a long list that are in view. */
import { useWindowVirtualizer, type VirtualItem } from "@tanstack/react-virtual";
import { type RefObject, useLayoutEffect, useState } from "react";

import { kept } from "../data/back";
import { isNarrow } from "../data/local";

export function useVirtual(count: number, body: RefObject<HTMLElement | null>) {
  const [margin, setMargin] = useState(300);
  const isSmall = isNarrow();
  // eslint-disable-next-line react-hooks/exhaustive-deps -- measured after each render, until it is what it was
  useLayoutEffect(() => {
    const top = body.current && body.current.getBoundingClientRect().top + scrollY;
    if (top && Math.abs(top - margin) > 2) setMargin(top);
  });
  const [heights] = useState(() => kept("heights") as VirtualItem[] | undefined);
  return useWindowVirtualizer({
    count,
    estimateSize: () => (isSmall ? 58 : 30),
    overscan: 12,
    scrollMargin: margin,
    ...(heights && { initialMeasurementsCache: heights }),
  });
}
