// Follow a shape with the public client; print its rows as a line of JSON whenever they change.
import { Shape, ShapeStream } from "@electric-sql/client";

const { url, liveSse, params, headers } = JSON.parse(process.argv[2]);
const stream = new ShapeStream({
  url,
  params,
  liveSse,
  headers,
  onError: (error) => {
    console.log(JSON.stringify({ error: String(error), status: error.status }));
  },
});
const shape = new Shape(stream);
const print = (rows) =>
  console.log(
    JSON.stringify({ rows }, (_, value) => (typeof value === "bigint" ? `${value}n` : value)),
  );
shape.subscribe(({ rows }) => print(rows));
