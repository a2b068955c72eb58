"use strict";

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function resolve(api, schema, seen = []) {
  if (!schema) return schema;
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    if (seen.includes(name)) return { title: name };
    return resolve(api, api.components.schemas[name], [...seen, name]);
  }
  if (schema.anyOf) return { ...schema, anyOf: schema.anyOf.map((one) => resolve(api, one, seen)) };
  return schema;
}

function kind(api, schema) {
  const found = resolve(api, schema) || {};
  if (found.anyOf) return found.anyOf.map((one) => kind(api, one)).join(" or ");
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (found.type === "array") return `list of ${kind(api, found.items)}`;
  return found.title && found.type === "object" ? found.title : found.type || "any";
}

function table(api, schema) {
  const found = resolve(api, schema);
  const rows = element("table");
  for (const [name, member] of Object.entries((found && found.properties) || {})) {
    const row = rows.insertRow();
    row.append(element("td", name + ((found.required || []).includes(name) ? " *" : "")));
    row.append(element("td", kind(api, member)));
    row.append(element("td", member.description || ""));
  }
  return rows;
}

function route(api, path, method, operation) {
  const box = element("details");
  box.dataset.words = `${method} ${path} ${operation.summary}`.toLowerCase();
  const title = element("summary");
  title.append(element("span", method.toUpperCase(), "method"), element("code", path), ` ${operation.summary}`);
  box.append(title);
  if (operation.description) box.append(element("p", operation.description));
  const parameters = element("table");
  for (const one of operation.parameters || []) {
    const row = parameters.insertRow();
    row.append(element("td", one.name + (one.required ? " *" : "")), element("td", one.in));
    row.append(element("td", kind(api, one.schema)));
  }
  box.append(parameters);
  const body = operation.requestBody && operation.requestBody.content["application/json"];
  if (body) {
    box.append(element("h4", "Body"), table(api, body.schema));
    for (const [name, example] of Object.entries(body.examples || {})) {
      box.append(element("p", name), element("pre", JSON.stringify(example.value, null, 2)));
    }
  }
  for (const [status, answer] of Object.entries(operation.responses)) {
    box.append(element("h4", `${status} ${answer.description}`));
    const content = Object.values(answer.content || {})[0];
    if (content && status < 400) box.append(table(api, content.schema));
  }
  return box;
}

async function show() {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = api.info.description;
  const rooms = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = (operation.tags || ["other"])[0];
      if (!rooms.has(tag)) rooms.set(tag, []);
      rooms.get(tag).push(route(api, path, method, operation));
    }
  }
  const main = document.getElementById("routes");
  main.replaceChildren();
  for (const [tag, routes] of rooms) {
    const section = element("section");
    section.append(element("h2", tag), ...routes);
    main.append(section);
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const box of main.querySelectorAll("details")) box.hidden = !box.dataset.words.includes(wanted);
  });
}

show().catch((problem) => {
  document.getElementById("routes").textContent = `The description could not be read: ${problem}`;
});
