import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function ThreadsJoin() {
  useTitle("Join a thread");
  return (
    <div className="stack">
      <div className="head">
        <h1>Join a thread</h1>
      </div>
      <Empty title="No invitation">Open the link that a member of the thread sent.</Empty>
    </div>
  );
}
