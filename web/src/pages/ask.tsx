import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Ask() {
  useTitle("Ask");
  return (
    <div className="stack">
      <div className="head">
        <h1>Ask</h1>
      </div>
      <Empty title="No question yet">Ask in your own words; the answer has its plan, SQL and rows.</Empty>
    </div>
  );
}
