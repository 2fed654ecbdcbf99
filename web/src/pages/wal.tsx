import { useTitle } from "../frame/title";
import { Empty } from "../parts/panel";

export default function Wal() {
  useTitle("WAL");
  return (
    <div className="stack">
      <div className="head">
        <h1>WAL</h1>
      </div>
      <Empty title="No slot">The replication slot, its lag and its retained WAL are shown here.</Empty>
    </div>
  );
}
