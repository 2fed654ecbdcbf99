/** The filter bar: free text and tokens such as `state:failed`, with suggestions. */
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";

import { joined, parseTokens, suggest, type Suggestion, typedText, unknownToken, type Token } from "../data/filter";
import { Icon } from "./icon";

interface FilterBarProps {
  label: string;
  placeholder: string;
  tokens?: readonly Token[];
  text: string;
  suggestions?: readonly Suggestion[];
  end?: ReactNode;
  className?: string;
  onChange: (tokens: readonly Token[], text: string) => void;
}

export function FilterBar({
  label,
  placeholder,
  tokens = [],
  text,
  suggestions = [],
  end,
  className = "",
  onChange,
}: FilterBarProps) {
  const shown = typedText(text, suggestions);
  const [typed, setTyped] = useState(shown);
  const [seen, setSeen] = useState(text);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [unknown, setUnknown] = useState<ReturnType<typeof unknownToken>>();
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  if (seen !== text) {
    setSeen(text);
    setTyped(shown);
  }
  const options = isOpen ? suggest(typed, suggestions) : [];

  const commit = (value: string) => {
    const other = value === shown ? undefined : unknownToken(value, suggestions);
    setUnknown(other);
    if (other) return;
    const found = parseTokens(value, suggestions);
    setTyped(typedText(found.text, suggestions));
    setSeen(found.text);
    setAt(-1);
    onChange(joined(tokens, found.tokens), found.text);
  };
  const choose = (option: string) => {
    const words = typed.split(/\s+/);
    words[words.length - 1] = option;
    if (option.endsWith(":")) {
      setTyped(words.join(" "));
      setAt(-1);
    } else commit(words.join(" "));
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" && options.length) setAt((at + 1) % options.length);
    else if (event.key === "ArrowUp" && options.length) setAt((at <= 0 ? options.length : at) - 1);
    else if (event.key === "Enter") {
      const option = options[at];
      if (option) choose(option);
      else {
        commit(typed);
        setOpen(false);
      }
    } else if (event.key === "Escape") {
      if (isOpen && options.length) setOpen(false);
      else input.current?.blur();
    } else if (event.key === "Backspace" && !typed && tokens.length) onChange(tokens.slice(0, -1), text);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className={`filterwrap ${className}`}>
      <div className="filterbar" role="search">
        <Icon name="search" small />
        {tokens.map((token) => (
          <span
            className={`token${token.invalid ? " invalid" : ""}`}
            key={token.name}
            title={token.invalid ?? token.value}
          >
            <b>{token.name}:</b>
            <span>{token.value.replaceAll(",", ", ")}</span>
            <button
              type="button"
              aria-label={`Remove ${token.name}:${token.value}`}
              onClick={() =>
                onChange(
                  tokens.filter((each) => each.name !== token.name),
                  text,
                )
              }
            >
              ×
            </button>
          </span>
        ))}
        <input
          ref={input}
          type="search"
          role="combobox"
          aria-label={label}
          aria-expanded={options.length > 0}
          aria-controls={list}
          aria-activedescendant={at >= 0 ? `${list}-${at}` : undefined}
          aria-autocomplete="list"
          aria-invalid={unknown !== undefined || undefined}
          autoComplete="off"
          spellCheck={false}
          data-filter=""
          placeholder={placeholder}
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setOpen(true);
            setAt(-1);
            setUnknown(undefined);
          }}
          onFocus={() => setOpen(true)}
          onBlur={() => {
            setOpen(false);
            if (typed !== shown) commit(typed);
          }}
          onKeyDown={onKeyDown}
        />
        {end}
        <kbd>/</kbd>
      </div>
      {unknown && (
        <p className="missing" role="alert">
          There is no filter <code>{unknown.name}:</code>{" "}
          {unknown.meant ? (
            <button
              type="button"
              className="linkish"
              onClick={() => commit(typed.replace(`${unknown.name}:`, `${unknown.meant}:`))}
            >
              Use {unknown.meant}:
            </button>
          ) : (
            "Quotes make it a text."
          )}
        </p>
      )}
      <ul
        className={`pop options${options.length ? "" : " none"}`}
        role="listbox"
        id={list}
        aria-label={`${label}, suggestions`}
      >
        {options.map((option, i) => (
          <li
            key={option}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === at}
            onMouseDown={(event) => {
              event.preventDefault();
              choose(option);
            }}
          >
            <code>{option}</code>
            <span className="muted">
              {option.endsWith(":") ? suggestions.find((each) => `${each.name}:` === option)?.hint : ""}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
