import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Failed() {
  useTitle("Failed and dead");
  return (
    <div className="stack">
      <div className="head">
        <h1>Failed and dead</h1>
      </div>
      <Empty title="Nothing failed">Runs that failed, and those whose attempts are used up, are grouped here by reason.</Empty>
    </div>
  );
}
