/** What a person or a model wrote: as Markdown, and as it was typed until that is loaded. */
import { lazy, Suspense } from "react";

import { isProse } from "../data/markdown";
import { visible } from "../data/visible";

const Markdown = lazy(() => import("./markdown"));

export function Prose({ text }: { text: string }) {
  const plain = <div className="plain">{visible(text)}</div>;
  return !isProse(text) ? (
    plain
  ) : (
    <Suspense fallback={plain}>
      <Markdown text={text} />
    </Suspense>
  );
}
