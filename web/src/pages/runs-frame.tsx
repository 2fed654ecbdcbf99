/** What stands around the rows of the list of runs: what is selected, the heads of columns, the keys. */
import type { ReactNode } from "react";

import { number } from "../data/format";

interface ChosenProps {
  isAll: boolean;
  selected: number;
  count: number;
  matching: string;
  buttons: ReactNode;
  selectAll: () => void;
  clear: () => void;
}

export function Chosen({ isAll, selected, count, matching, buttons, selectAll, clear }: ChosenProps) {
  return (
    <div className="bulk" role="status">
      <b className="strong">{isAll ? `All ${matching} matching are selected` : `${number(selected)} selected`}</b>
      {!isAll && matching && selected < count && (
        <button type="button" className="linkish" onClick={selectAll}>
          Select all {matching} matching
        </button>
      )}
      <span className="end row wrap">
        {buttons}
        <button type="button" className="btn quiet small" onClick={clear}>
          Clear <kbd>Esc</kbd>
        </button>
      </span>
    </div>
  );
}

interface HeadProps {
  /** Whether a panel is open beside the list, which then has fewer columns. */
  isBeside: boolean;
  isAll: boolean;
  onChange: (wanted: boolean) => void;
}

export function Head({ isBeside, isAll, onChange }: HeadProps) {
  return (
    <>
      <colgroup>
        <col className="w-c hide-s" />
        <col className="w-s" />
        <col className="w-id" />
        <col className="w-row" />
        {!isBeside && <col className="w-agent hide-s" />}
        {!isBeside && <col className="hide-s" />}
        {isBeside && <col className="hide-s hide-m w-what" />}
        {!isBeside && <col className="w-n hide-s hide-m" />}
        <col className="w-n hide-s" />
        <col className="w-t" />
      </colgroup>
      <thead>
        <tr>
          <th className="hide-s">
            <input
              type="checkbox"
              aria-label="Select all shown"
              checked={isAll}
              onChange={(event) => onChange(event.target.checked)}
            />
          </th>
          <th scope="col">State</th>
          <th scope="col" className="num">
            Run
          </th>
          <th scope="col">Row</th>
          {!isBeside && (
            <th scope="col" className="hide-s">
              Agent
            </th>
          )}
          <th scope="col" className={`hide-s${isBeside ? " hide-m" : ""}`}>
            What happened
          </th>
          {!isBeside && (
            <th scope="col" className="num hide-s hide-m">
              Time
            </th>
          )}
          <th scope="col" className="num hide-s">
            Cost
          </th>
          <th scope="col" className="num" aria-sort="descending">
            When ↓
          </th>
        </tr>
      </thead>
    </>
  );
}

const KEYS = [
  ["j k", "move"],
  ["x", "select"],
  ["↵", "open"],
  ["r", "retry"],
  ["?", "all keys"],
] as const;

export function Keys() {
  return KEYS.map(([keys, does]) => (
    <span className="hide-s" key={does}>
      {keys.split(" ").map((each) => (
        <kbd key={each}>{each}</kbd>
      ))}{" "}
      {does}
    </span>
  ));
}
