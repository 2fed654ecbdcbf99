/** Verify the chain of digests of the audit, also against a head that the log has named. */
import { useState } from "react";

import { type Chain, head } from "../data/audit";
import { number } from "../data/format";
import { readQuery } from "../data/queries";
import { type Refused, refused } from "../data/request";
import { Dialog } from "../parts/confirm";
import { Copy } from "../parts/copy";
import { Notice, Problem } from "../parts/notice";

export function VerifyChain({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [chain, setChain] = useState<Chain | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isReading, setReading] = useState(false);
  const known = head(typed);
  const isWrong = typed.trim() !== "" && !known;
  const verify = async () => {
    setReading(true);
    try {
      const given = { tenant: "", number: known?.number ?? "", digest: known?.digest ?? "" };
      setChain((await readQuery<Chain>("audit_chain", given))[0] ?? null);
      setError(null);
    } catch (problem) {
      setError(refused(problem));
    }
    setReading(false);
  };
  return (
    <Dialog
      title="Verify the chain"
      className="edit"
      onClose={onClose}
      foot={
        <>
          <button type="button" className="btn primary" disabled={isReading || isWrong} onClick={verify}>
            {isReading ? "Reading all entries" : "Verify"}
          </button>
          <button type="button" className="btn quiet" onClick={onClose}>
            Close
          </button>
        </>
      }
    >
      <div className="body">
        <p className="soft">
          Each entry has the digest of the one before. An entry that was changed, removed, inserted or moved is found.
          Who rewrites all of them is found by a head that was known before.
        </p>
        <label className="field">
          <span>
            A head, from <code>audit.head</code> of the log or an earlier verification; optional
          </span>
          <input
            type="text"
            value={typed}
            placeholder="NUMBER:DIGEST"
            autoComplete="off"
            spellCheck={false}
            aria-invalid={isWrong || undefined}
            onChange={(event) => setTyped(event.target.value)}
          />
          {isWrong && <span className="wrong">A number, a colon, and 64 hexadecimal digits.</span>}
        </label>
        <div role="status">
          {error ? <Problem error={error} again={verify} /> : chain && <Verified chain={chain} />}
        </div>
      </div>
    </Dialog>
  );
}

function Verified({ chain }: { chain: Chain }) {
  if (chain.bad_row !== null)
    return (
      <Notice tone="failed">
        <b className="strong">Entry {chain.bad_row} is not as it was written:</b> {chain.reason}. Those before it are.
        Keep a copy of the database, and compare it with the heads in the log.
      </Notice>
    );
  return (
    <Notice tone="ok">
      <b className="strong">All {number(chain.rows)} entries are as they were written.</b> The head is{" "}
      <code className="wrapped">{chain.head}</code> <Copy text={chain.head ?? ""} />
    </Notice>
  );
}
