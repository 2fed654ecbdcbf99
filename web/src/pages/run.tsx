import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Run() {
  useTitle("Run");
  return (
    <div className="stack">
      <div className="head">
        <h1>Run</h1>
      </div>
      <Empty title="No run">This page shows one run.</Empty>
    </div>
  );
}
