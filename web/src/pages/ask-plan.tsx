/** The plan of an answer: steps as boxes, what each needs as arrows. */
import type { Answer } from "../data/questions";
import { Graph } from "../parts/graph";

export default function Plan({ answer }: { answer: Answer }) {
  const results = new Map(answer.steps.map((each) => [each.step, each]));
  return (
    <Graph
      label="Plan"
      words={answer.plan
        .map(
          (each) =>
            `${each.id}: ${each.description}${each.depends_on.length ? `, after ${each.depends_on.join(", ")}` : ""}`,
        )
        .join("; ")}
      nodes={answer.plan.map((step) => {
        const found = results.get(step.id);
        const kind = step.type.toLowerCase();
        return {
          id: step.id,
          title: step.description,
          text: found
            ? found.error
              ? "failed"
              : `${kind}, ${found.rows.length} ${found.rows.length === 1 ? "row" : "rows"}`
            : kind,
          className: found && !found.error ? "ok" : "",
        };
      })}
      edges={answer.plan.flatMap((step) => step.depends_on.map((from) => ({ from, to: step.id })))}
    />
  );
}
