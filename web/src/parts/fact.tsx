/** A fact: whom it is about, what is said, how certain it is. */
import { Icon } from "./icon";

interface FactItemProps {
  subject: string;
  isAgent?: boolean;
  predicate: string;
  object: string;
  category: string;
  confidence: number;
  disputed: boolean;
  /** Who said it, if it was somebody else. */
  saidBy?: string | null;
}

const tone = (confidence: number) => (confidence >= 0.8 ? "ok" : confidence >= 0.5 ? "person" : "failed");
const level = (confidence: number) => (confidence >= 0.8 ? "high" : confidence >= 0.5 ? "medium" : "low");

export function FactItem({
  subject,
  isAgent = false,
  predicate,
  object,
  category,
  confidence,
  disputed,
  saidBy,
}: FactItemProps) {
  return (
    <li title={`${level(confidence)} confidence, ${category}`}>
      <span className={`st st-${tone(confidence)} bare`}>
        <Icon name="bulb" small />
        <span className="vh">{level(confidence)} confidence</span>
      </span>
      <span>
        <span className={`chip ${isAgent ? "agent" : "person"}`}>{subject}</span> {predicate}{" "}
        <b className="strong">{object}</b>{" "}
        {saidBy && saidBy !== subject && <span className="chip">said by {saidBy}</span>}{" "}
        {disputed && <span className="chip">disputed</span>}
      </span>
      <span className="muted">{confidence.toFixed(2)}</span>
    </li>
  );
}
