import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Approvals() {
  useTitle("Approvals");
  return (
    <div className="stack">
      <div className="head">
        <h1>Approvals</h1>
      </div>
      <Empty title="Nothing waits for a person">Calls to a tool that needs approval will appear here.</Empty>
    </div>
  );
}
