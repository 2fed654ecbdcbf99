import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function AgentsEdit() {
  useTitle("Edit a prompt");
  return (
    <div className="stack">
      <div className="head">
        <h1>Edit a prompt</h1>
      </div>
      <Empty title="No agent">This page edits the prompt of one agent.</Empty>
    </div>
  );
}
