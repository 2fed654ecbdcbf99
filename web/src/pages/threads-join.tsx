import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function ThreadsJoin() {
  useTitle("Join a thread");
  return (
    <div className="stack">
      <div className="head">
        <h1>Join a thread</h1>
      </div>
      <Empty title="Invitations are accepted in the terminal" command="walagent thread --help">
        This page does not join threads yet.
      </Empty>
    </div>
  );
}
