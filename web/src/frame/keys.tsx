/** The keys, as a dialog. */
import { Dialog } from "../parts/confirm";
import { switchLetters, useLetters } from "./keyboard";

const KEYS: readonly { title: string; keys: readonly (readonly [string, string])[] }[] = [
  {
    title: "Anywhere",
    keys: [
      ["⌘K, Ctrl K", "find anything"],
      ["g h", "home"],
      ["g r", "runs"],
      ["g a", "approvals"],
      ["g f", "failures"],
      ["g c", "changes"],
      ["g v", "evaluations"],
      ["g t", "threads"],
      ["g q", "ask"],
      ["g w", "workflows"],
      ["g m", "memory"],
      ["g d", "documents"],
      ["g x", "access"],
      ["g u", "audit"],
      ["y", "copy link"],
      ["u", "undo"],
      ["?", "keys"],
      ["Esc", "close, then clear the selection"],
    ],
  },
  {
    title: "Lists",
    keys: [
      ["/", "filter this list"],
      ["j k", "next, previous"],
      ["x", "select"],
      ["⇧x", "select the range"],
      ["⌘A, Ctrl A", "select all matching"],
      ["↵", "open"],
      ["o", "open as a page"],
      [".", "show new rows"],
      ["r", "retry"],
      ["c", "cancel"],
      ["w", "why"],
    ],
  },
  {
    title: "Cases of an evaluation",
    keys: [
      ["j k", "open the next, previous case"],
      ["1", "the recorded run is right"],
      ["2", "the candidate is right"],
      ["3", "neither: say what is expected"],
    ],
  },
  {
    title: "Run, approvals, text",
    keys: [
      ["[ ]", "previous, next run of the list"],
      ["e", "expand all steps"],
      ["a", "approve"],
      ["e", "edit the arguments"],
      ["r", "reject: moves to the reason"],
      ["⌘↵, Ctrl ↵", "send, ask, save"],
      ["↵", "send a message"],
      ["⇧↵", "new line"],
    ],
  },
];

export default function KeysDialog({ onClose }: { onClose: () => void }) {
  const letters = useLetters();
  return (
    <Dialog
      title="Keys"
      className="wide"
      onClose={onClose}
      foot={
        <>
          <label className="row grow">
            <input type="checkbox" checked={letters} onChange={(event) => switchLetters(event.target.checked)} /> Keys
            of single letters
          </label>
          <button type="button" className="btn" onClick={onClose}>
            Close
          </button>
        </>
      }
    >
      <div className="body grid-3">
        {KEYS.map((group) => (
          <div className="stack tight" key={group.title}>
            <h3>{group.title}</h3>
            <dl className="kv keys">
              {group.keys.map(([keys, what]) => (
                <div className="contents" key={keys + what}>
                  <dt>
                    {keys.split(" ").map((key, i) => (
                      <span key={i}>
                        <kbd>{key.replace(",", "")}</kbd>{" "}
                      </span>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </div>
        ))}
      </div>
    </Dialog>
  );
}
