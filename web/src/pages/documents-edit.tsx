/** Store a document, or change one. */
import { useState } from "react";

import { type StoredDocument, wrongDocument } from "../data/documents";
import { mutate } from "../data/mutate";
import { FormDialog } from "../parts/form-dialog";
import { toast } from "../parts/toast";

interface WriteProps {
  /** The one that is changed, as it was read; none: a new one is stored. */
  document?: StoredDocument;
  again: () => void;
  onClose: () => void;
}

export function WriteDocument({ document, again, onClose }: WriteProps) {
  // What is typed is about the version that was read: another one is refused, not overwritten.
  const [read] = useState(document);
  const [title, setTitle] = useState(read?.title ?? "");
  const [source, setSource] = useState(read?.source ?? "");
  const [body, setBody] = useState(read?.body ?? "");
  const wrong = wrongDocument(title, body);
  const isChanged = title !== (read?.title ?? "") || source !== (read?.source ?? "") || body !== (read?.body ?? "");
  const send = async () => {
    const values = { title: title.trim(), body, source: source.trim() };
    if (!read) {
      await mutate("add_document", values);
      toast("Stored: agents find it by its words at once.");
      return;
    }
    await mutate("change_document", { id: read.id, base: read.version, ...values });
    toast("Changed: it is cut and embedded again.");
  };
  return (
    <FormDialog
      title={read ? `Change ${read.title}` : "Add a document"}
      action={read ? "Change it" : "Store it"}
      keep={read ? "Keep it as it is" : "Discard"}
      isReady={isChanged && wrong === undefined}
      send={send}
      again={again}
      onClose={onClose}
      gone="Somebody has changed or deleted it meanwhile"
    >
      <label className="field">
        Title
        <input
          type="text"
          dir="auto"
          value={title}
          autoComplete="off"
          onChange={(event) => setTitle(event.target.value)}
        />
      </label>
      <label className="field">
        Source
        <input type="text" value={source} autoComplete="off" onChange={(event) => setSource(event.target.value)} />
        <span className="muted">Where it is from, such as an address. Agents see it with each chunk.</span>
      </label>
      <label className="field">
        Text
        <textarea rows={12} dir="auto" value={body} onChange={(event) => setBody(event.target.value)} />
      </label>
      {isChanged && wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </FormDialog>
  );
}
