import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Threads() {
  useTitle("Threads");
  return (
    <div className="stack">
      <div className="head">
        <h1>Threads</h1>
      </div>
      <Empty title="Threads are in the terminal" command="walagent talk">
        A thread is a conversation of people and agents. This page does not show them yet.
      </Empty>
    </div>
  );
}
