import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Threads() {
  useTitle("Threads");
  return (
    <div className="stack">
      <div className="head">
        <h1>Threads</h1>
      </div>
      <Empty title="No thread">A thread is a conversation of people and agents.</Empty>
    </div>
  );
}
