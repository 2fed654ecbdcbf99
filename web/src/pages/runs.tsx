import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Runs() {
  useTitle("Runs");
  return (
    <div className="stack">
      <div className="head">
        <h1>Runs</h1>
      </div>
      <Empty title="No runs yet">Attach an agent to a table. Each matching change will start a run here.</Empty>
    </div>
  );
}
