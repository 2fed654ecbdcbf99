import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function AgentsEdit() {
  useTitle("Edit a prompt");
  return (
    <div className="stack">
      <div className="head">
        <h1>Edit a prompt</h1>
      </div>
      <Empty title="Prompts are edited in SQL or in agents.yaml" command="walagent apply --dry-run">
        This page does not edit them yet; the page of the agent shows its versions.
      </Empty>
    </div>
  );
}
