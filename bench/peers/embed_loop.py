"""A loop that embeds the rows of a table, 64 in a request and a transaction, and nothing else.

What one writes by hand: the provider's SDK, psycopg, and one request after the other.  It records
nothing, has no budget, and does not see a row that changes meanwhile.
"""

import argparse
import json
from importlib.metadata import version

import openai
import psycopg

from bench import workload
from bench.measure import Meter

_ROWS = 64


def main() -> None:
    """Embed all rows and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--api-key", required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    client = openai.OpenAI(base_url=options.base_url, api_key=options.api_key, max_retries=0)
    done = 0
    with psycopg.connect(options.url) as conn:
        meter = Meter(options.postmaster)
        while rows := conn.execute(workload.LACK_EMBEDDING, [_ROWS]).fetchall():
            found = client.embeddings.create(
                model="bench", input=[text for _, text in rows], encoding_format="float"
            )
            vectors = [each.embedding for each in sorted(found.data, key=lambda each: each.index)]
            with conn.cursor() as cursor:
                cursor.executemany(
                    "update ticket set embedding = %s where id = %s",
                    [(vector, key) for vector, (key, _) in zip(vectors, rows, strict=True)],
                )
            conn.commit()
            done += len(rows)
        spent = meter.read()
    assert done == options.count, f"{done} of {options.count} rows"
    print(
        json.dumps(
            {
                "count": done,
                "seconds": spent.wall,
                "cpu_seconds": spent.cpu,
                "server_cpu_seconds": spent.server_cpu,
                "versions": {name: version(name) for name in ("openai", "psycopg")},
            }
        )
    )


if __name__ == "__main__":
    main()
