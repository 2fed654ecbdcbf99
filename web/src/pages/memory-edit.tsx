/** Store a memory, and replace one by another value. */
import { useState } from "react";

import { type Memory, MEMORY_KINDS } from "../data/memory";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { FormDialog } from "../parts/form-dialog";
import { toast } from "../parts/toast";

interface EditProps {
  again: () => void;
  onClose: () => void;
}

export function CorrectMemory({ memory, again, onClose }: EditProps & { memory: Memory }) {
  // What is typed is about the value as it was read: one that was replaced meanwhile is refused.
  const [text, setText] = useState(memory.value);
  const wrong = memory.is_text ? undefined : wrongJson(text);
  return (
    <FormDialog
      title="Correct this memory"
      action="Replace it"
      keep="Keep it as it is"
      isReady={text.trim() !== "" && text !== memory.value && wrong === undefined}
      send={async () => {
        await mutate("correct_memory", { id: memory.id, text, is_text: memory.is_text });
        toast("Replaced. The value before is kept, and no longer recalled.");
      }}
      again={again}
      onClose={onClose}
    >
      <label className="field">
        {memory.is_text ? "Text" : "JSON document"}
        <textarea rows={6} dir="auto" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </FormDialog>
  );
}

/** Why a text is no JSON document; undefined: it is one. */
function wrongJson(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `Not JSON: ${(error as Error).message}`;
  }
}

export function Remember({ agent, again, onClose }: EditProps & { agent: string }) {
  const agents = useQueryOnce<{ agent: string }>("attachments").rows ?? [];
  const names = [...new Set([...(agent ? [agent] : []), ...agents.map((each) => each.agent)])];
  const [chosen, choose] = useState(agent);
  const [text, setText] = useState("");
  const [key, setKey] = useState("");
  const [kind, setKind] = useState<string>("semantic");
  const [about, setAbout] = useState("");
  return (
    <FormDialog
      title="Add a memory"
      action="Store it"
      keep="Discard"
      isReady={chosen.trim() !== "" && text.trim() !== ""}
      send={async () => {
        await mutate("remember", { agent: chosen.trim(), text, key: key.trim(), kind, about: about.trim() });
        toast(`Stored: ${chosen.trim()} recalls it from now on.`);
      }}
      again={again}
      onClose={onClose}
    >
      <label className="field">
        Agent
        <input
          type="text"
          list="memory-agents"
          value={chosen}
          autoComplete="off"
          onChange={(event) => choose(event.target.value)}
        />
        <datalist id="memory-agents">
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      </label>
      <label className="field">
        Text
        <textarea rows={4} dir="auto" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <label className="field">
        Key
        <input type="text" value={key} autoComplete="off" onChange={(event) => setKey(event.target.value)} />
        <span className="muted">Another text under it replaces the one before. Empty: none.</span>
      </label>
      <label className="field">
        Kind
        <select value={kind} onChange={(event) => setKind(event.target.value)}>
          {MEMORY_KINDS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label className="field">
        About
        <input type="text" value={about} autoComplete="off" onChange={(event) => setAbout(event.target.value)} />
        <span className="muted">A principal; it is deleted with that principal. Empty: nobody.</span>
      </label>
    </FormDialog>
  );
}
