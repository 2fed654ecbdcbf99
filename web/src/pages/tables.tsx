import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Tables() {
  useTitle("Tables");
  return (
    <div className="stack">
      <div className="head">
        <h1>Tables</h1>
      </div>
      <Empty title="No table has an agent">Tables appear here when an agent is attached to them.</Empty>
    </div>
  );
}
