"""A worker of your own: it asks the model itself, and keeps its state with walagent over SQL.

python examples/own_worker.py "dbname=app" THREAD
"""

import json
import sys
import time
from typing import Any

import psycopg
from openai import OpenAI

TOOLS = {"web_search": lambda query: f"nothing is known about {query}"}


def work(dsn: str, thread: str, model: OpenAI) -> None:
    """Answer what was written in a thread; killed at any point, another worker continues."""
    with psycopg.connect(dsn, autocommit=True) as conn:  # each call is a transaction

        def ask(query: str, *given: Any) -> Any:
            row = conn.execute(query.encode(), given).fetchone()
            return row[0] if row else None

        turn = ask("select agent.start_turn(%s)", thread)
        while turn and (state := ask("select agent.run_turn(%s)", turn))["status"] == "running":
            calls = [(c["tool"], json.dumps(c["arguments"])) for c in state["calls"]]
            if not calls:  # nothing is left of an earlier reply
                said = [{"role": "system", "content": state["system_prompt"]}, *state["messages"]]
                more = {"tools": state["tools"], **state["parameters"]}
                reply = model.chat.completions.create(model=state["model"], messages=said, **more)
                message = reply.choices[0].message
                calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
                if not calls:
                    ask("select agent.finish_turn(%s, %s)", turn, message.content)
            for name, arguments in calls:
                call = "select agent.process_tool_call(%s, %s, %s)"
                while (made := ask(call, turn, name, arguments))["status"] == "awaiting_approval":
                    time.sleep(1)
                if made["status"] == "ready":  # outside the database, it is the worker's
                    found = json.dumps(TOOLS[name](**made["arguments"]))
                    ask("select agent.record_tool_result(%s, %s, %s)", turn, name, found)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], OpenAI())
