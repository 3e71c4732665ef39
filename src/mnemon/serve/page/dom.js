// Elements without markup: text goes in as text, so a label can never become a tag.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") found.setAttribute(name, value);
    else found[name] = value;
  }
  found.append(...children);
  return found;
}

export function svg(tag, attributes = {}, ...children) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

export const number = (n) => n.toLocaleString("en");
export const percent = (share) => `${Math.round(share * 100)} %`;
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

/** A sentence for the user; it stays until it is closed or `about` says something else. */
export function tell(sentence, about = "") {
  hush(about);
  const close = make("button", { type: "button", className: "plain", textContent: "Close" });
  const notice = make("p", { className: "notice" }, make("span", { textContent: sentence }), close);
  notice.dataset.about = about;
  close.addEventListener("click", () => notice.remove());
  $("notices").append(notice);
  while ($("notices").children.length > 3) $("notices").firstChild.remove();
}

export function hush(about) {
  for (const notice of [...$("notices").children]) if (notice.dataset.about === about) notice.remove();
}
