import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Cost() {
  useTitle("Cost");
  return (
    <div className="stack">
      <div className="head">
        <h1>Cost</h1>
      </div>
      <Empty title="No cost yet">Model calls are recorded here with tokens and price.</Empty>
    </div>
  );
}
