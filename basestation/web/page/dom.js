// Elements made in code. Text of the network enters the page here as text nodes only, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (`onclick` and the like) and children, which are elements or texts. */
export function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** The same for an SVG element. */
export function draw(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set a text only if it changed, so that a screen reader stays quiet. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element. */
export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** One child for each item, kept by key, so that focus and pointer stay on their element. */
export function keepChildren(parent, items, keyOf, build, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = build(item);
      child.dataset.key = key;
    }
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
    update(child, item);
  }
  for (const child of old.values()) child.remove();
}

/** Ask the user to confirm: true if confirmed. */
export function confirmed(question, action) {
  const dialog = byId("ask");
  say(byId("ask-text"), question);
  say(byId("ask-yes"), action);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
