import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Ask() {
  useTitle("Ask");
  return (
    <div className="stack">
      <div className="head">
        <h1>Ask</h1>
      </div>
      <Empty title="Questions are in the terminal" command={`walagent ask "How many tickets are open?"`}>
        The answer has its plan, SQL and rows. This page does not ask yet.
      </Empty>
    </div>
  );
}
