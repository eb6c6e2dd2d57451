// The language service is written for bundlers and imports JSON files plainly; Node wants to be told that they are JSON.
import { register } from "node:module";

const hook = `export async function load(url, context, next) {
  return next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
