/** The filter bar: free text and tokens such as `state:failed`, with suggestions. */
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";

import { Icon } from "./icon";

export interface Token {
  name: string;
  value: string;
  /** Why it has no effect, such as a column that was dropped: shown struck through. */
  invalid?: string;
}

export interface Suggestion {
  name: string;
  /** Known values; none: anything. */
  values?: readonly string[];
  hint?: string;
}

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

/** Split typed text into tokens with a known name, and the rest. */
export function parseTokens(text: string, known: readonly Suggestion[]): { tokens: Token[]; text: string } {
  const tokens: Token[] = [];
  const rest: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(":");
    const name = word.slice(0, at);
    if (at > 0 && word.length > at + 1 && known.some((each) => each.name === name))
      tokens.push({ name, value: word.slice(at + 1) });
    else rest.push(word);
  }
  return { tokens, text: rest.join(" ") };
}

/** Add tokens: one of each name, and values of the same name joined. */
function joined(old: readonly Token[], added: readonly Token[]): Token[] {
  const found = [...old];
  for (const token of added) {
    const at = found.findIndex((each) => each.name === token.name);
    if (at < 0) found.push(token);
    else
      found[at] = {
        name: token.name,
        value: [...new Set([...(found[at]?.value.split(",") ?? []), ...token.value.split(",")])].join(","),
      };
  }
  return found;
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
  const [typed, setTyped] = useState(text);
  const [seen, setSeen] = useState(text);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  if (seen !== text) {
    setSeen(text);
    setTyped(text);
  }
  const options = isOpen ? suggest(typed, suggestions) : [];

  const commit = (value: string) => {
    const found = parseTokens(value, suggestions);
    setTyped(found.text);
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
          <span className={`token${token.invalid ? " invalid" : ""}`} key={token.name} title={token.invalid}>
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
          autoComplete="off"
          spellCheck={false}
          data-filter=""
          placeholder={placeholder}
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setOpen(true);
            setAt(-1);
          }}
          onFocus={() => setOpen(true)}
          onBlur={() => {
            setOpen(false);
            if (typed !== text) commit(typed);
          }}
          onKeyDown={onKeyDown}
        />
        {end}
        <kbd>/</kbd>
      </div>
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

/** What the last word could become. */
function suggest(typed: string, known: readonly Suggestion[]): string[] {
  const word = typed.split(/\s+/).at(-1) ?? "";
  const at = word.indexOf(":");
  if (at < 0) return known.map((each) => `${each.name}:`).filter((each) => each.startsWith(word));
  const name = word.slice(0, at);
  const given = word.slice(at + 1);
  const before = given.includes(",") ? given.slice(0, given.lastIndexOf(",") + 1) : "";
  const last = given.slice(before.length);
  const values = known.find((each) => each.name === name)?.values ?? [];
  return values
    .filter((each) => each.startsWith(last) && each !== last)
    .slice(0, 12)
    .map((each) => `${name}:${before}${each}`);
}
