/** Going on from a step of a run, in a run of its own. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { canFork, type Fork, type ForkPoint } from "../data/forks";
import { mutate } from "../data/mutate";
import { useQueryOnce } from "../data/queries";
import { badge, type RunDetail, type RunState } from "../data/runs";
import { visible } from "../data/visible";
import { Confirm } from "../parts/confirm";
import { Icon } from "../parts/icon";
import { Notice } from "../parts/notice";
import { State } from "../parts/state";
import { Time } from "../parts/time";
import { toast, toastProblem } from "../parts/toast";
import { useMayOperate } from "./failed-group";

type Change = "nothing" | "prompt" | "reply" | "arguments";

/** Beside a step of a run that has ended, for those who may. */
export function GoOn({ run, point }: { run: RunDetail; point: ForkPoint }) {
  const mayOperate = useMayOperate();
  const [isAsking, ask] = useState(false);
  if (!mayOperate || !canFork(run)) return null;
  return (
    <>
      <button type="button" className="btn quiet small" onClick={() => ask(true)}>
        <Icon name="retry" small />
        Go on from here…
      </button>
      {isAsking && <Ask run={run} point={point} onClose={() => ask(false)} />}
    </>
  );
}

function Ask({ run, point, onClose }: { run: RunDetail; point: ForkPoint; onClose: () => void }) {
  const navigate = useNavigate();
  const [change, choose] = useState<Change>("nothing");
  const [text, setText] = useState("");
  const [isNewest, setNewest] = useState(false);
  const isCall = point.args !== null;
  const pick = (to: Change) => {
    choose(to);
    setText(to === "arguments" ? (point.args ?? "") : "");
  };
  const go = async () => {
    const given = (name: Change) => (change === name ? text : "");
    try {
      const { result } = await mutate<string>("fork", {
        run: run.id,
        step: point.step,
        prompt: given("prompt"),
        reply: given("reply"),
        // As it was written: parsed, a large number would be rounded.
        arguments: given("arguments"),
        newest_version: isNewest,
      });
      toast(`Run ${result} goes on from step ${point.step}.`);
      await navigate({ to: "/runs/$run", params: { run: result } });
    } catch (error) {
      toastProblem(error);
    }
  };
  return (
    <Confirm
      title={isCall ? `Make this call of run ${run.id} again?` : `Go on from this reply of run ${run.id}?`}
      action="Begin the run"
      onConfirm={go}
      onClose={onClose}
    >
      <p>
        A new run keeps the steps before; their effects are not done again. What run {run.id} did from this step on
        stays, and can be done a second time: take it back first where that is wrong.{" "}
        {isCall ? "The call is made again, with its approval." : "The model is asked again."}
      </p>
      <label className="field">
        Change
        <select value={change} onChange={(event) => pick(event.target.value as Change)}>
          <option value="nothing">nothing</option>
          <option value="prompt">the system prompt</option>
          {!isCall && <option value="reply">the reply of the model</option>}
          {isCall && <option value="arguments">the arguments of the call</option>}
        </select>
      </label>
      {change !== "nothing" && (
        <label className="field">
          {LABELS[change]}
          <textarea
            rows={6}
            className={change === "arguments" ? "mono" : undefined}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
      )}
      {run.version !== null && (
        <label className="field">
          Version of {run.agent}
          <select value={isNewest ? "newest" : "same"} onChange={(event) => setNewest(event.target.value === "newest")}>
            <option value="same">version {run.version}, as before</option>
            <option value="newest">the current one</option>
          </select>
        </label>
      )}
    </Confirm>
  );
}

const LABELS: Record<Exclude<Change, "nothing">, string> = {
  prompt: "System prompt from there on",
  reply: "Reply in place of the model’s",
  arguments: "Arguments, as a JSON object",
};

/** Above the steps: which run this one goes on from, and which go on from it. */
export function RunForks({ run }: { run: RunDetail }) {
  const { rows } = useQueryOnce<Fork>("forks", { run: run.id }, { every: 5_000 });
  const own = rows?.find((each) => each.id === run.id);
  const others = (rows ?? []).filter((each) => each.fork_of === run.id);
  return (
    <>
      {own && (
        <Notice tone="info">
          <p>
            Goes on from step {own.fork_step} of{" "}
            <Link to="/runs/$run" params={{ run: own.fork_of }}>
              run {own.fork_of}
            </Link>
            {own.by && <>, asked for by {visible(own.by)}</>}
            {own.changed.length > 0 && `, with another ${own.changed.join(" and other ")}`}. Steps before are kept:
            their effects are those of that run.
          </p>
        </Notice>
      )}
      {others.length > 0 && (
        <Notice tone="info">
          {others.map((each) => (
            <p key={each.id} className="row wrap">
              <Link to="/runs/$run" params={{ run: each.id }}>
                run {each.id}
              </Link>
              <span>goes on from step {each.fork_step}</span>
              <State state={badge(each.state as RunState)} bare />
              <span className="muted">
                <Time at={each.created_at} />
              </span>
            </p>
          ))}
        </Notice>
      )}
    </>
  );
}
