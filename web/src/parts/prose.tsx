/** What a person or a model wrote: as Markdown, and as it was typed until that is loaded. */
import { lazy, Suspense } from "react";

import { visible } from "../data/visible";

const Markdown = lazy(() => import("./markdown"));
const MOST = 100_000; // characters: longer texts are no messages

export function Prose({ text }: { text: string }) {
  const plain = <div className="plain">{visible(text)}</div>;
  return text.length > MOST ? (
    plain
  ) : (
    <Suspense fallback={plain}>
      <Markdown text={text} />
    </Suspense>
  );
}
