import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Agents() {
  useTitle("Agents");
  return (
    <div className="stack">
      <div className="head">
        <h1>Agents</h1>
      </div>
      <Empty title="No agent" command="walagent apply">An agent is a model, a prompt and tools.</Empty>
    </div>
  );
}
