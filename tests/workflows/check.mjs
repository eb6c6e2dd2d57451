// GitHub's own language service over workflow files and action.yml: prints FILE:LINE: MESSAGE for each error, exit code 1.
// usage: node --import ./loader.mjs check.mjs ACTION_YML FILE...   (run from a copy beside node_modules)
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { validate } from "@actions/languageservice/validate";
import { TextDocument } from "vscode-languageserver-textdocument";
import { parse } from "yaml";

const [action, ...files] = process.argv.slice(2);
const ours = parse(fs.readFileSync(action, "utf8"));
const actionsMetadataProvider = {
  // Of other actions the inputs are not known here: whatever is given to them is accepted.
  fetchActionMetadata: async ({ name }) =>
    name === "perfgate" ? ours : { name, description: name, inputs: undefined },
};

let errors = 0;
for (const file of files) {
  const document = TextDocument.create(pathToFileURL(path.resolve(file)).href, "yaml", 0, fs.readFileSync(file, "utf8"));
  for (const found of await validate(document, { actionsMetadataProvider })) {
    // 1 is an error, and so is none; 2 and up are warnings and hints.
    if ((found.severity ?? 1) > 1) continue;
    errors += 1;
    console.log(`${file}:${found.range.start.line + 1}: ${found.message}`);
  }
}
process.exit(errors ? 1 : 0);
