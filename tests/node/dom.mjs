// So much of a document as the rows of the board need, for node. Elements come and go as plain
// data: [tag, {attribute: value}, [child, …]], where a child is such a list or a text.

class Element {
  constructor(tag) {
    this.tag = tag;
    this.attributes = new Map();
    this.childNodes = [];
    this.parent = null;
    this.dataset = new Proxy(this, {
      get: (_, key) => this.attributes.get(dataName(key)),
      set: (_, key, value) => this.attributes.set(dataName(key), String(value)) && true,
    });
    this.classList = {
      contains: (name) => this.classes().includes(name),
      toggle: (name, on) => {
        const others = this.classes().filter((each) => each !== name);
        this.className = (on ? [...others, name] : others).join(" ");
      },
    };
  }

  addEventListener() {}

  classes() {
    return this.className.split(" ").filter(Boolean);
  }

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }

  hasAttribute(name) {
    return this.attributes.has(name);
  }

  setAttribute(name, value) {
    this.attributes.set(name, String(value));
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  append(...nodes) {
    for (const node of nodes) if (node instanceof Element) node.parent = this;
    this.childNodes.push(...nodes);
  }

  replaceChildren(...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }

  after(node) {
    const { childNodes } = this.parent;
    childNodes.splice(childNodes.indexOf(this) + 1, 0, node);
    node.parent = this.parent;
  }

  cloneNode() {
    return built(plain(this));
  }

  querySelectorAll(selector) {
    const inside = this.childNodes.filter((node) => node instanceof Element);
    return inside.flatMap((node) => [
      ...(node.classList.contains(selector.slice(1)) ? [node] : []),
      ...node.querySelectorAll(selector),
    ]);
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent ?? node).join("");
  }

  set textContent(text) {
    this.replaceChildren(text);
  }
}

for (const [property, attribute] of Object.entries({ className: "class", title: "title" })) {
  Object.defineProperty(Element.prototype, property, {
    get() {
      return this.getAttribute(attribute) ?? "";
    },
    set(value) {
      this.setAttribute(attribute, value);
    },
  });
}

const dataName = (key) => `data-${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** The element that plain data describe. */
export function built([tag, attributes, children]) {
  const made = new Element(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (typeof child === "string" ? child : built(child))));
  return made;
}

/** An element as plain data. */
export function plain(node) {
  if (!(node instanceof Element)) return node;
  return [node.tag, Object.fromEntries(node.attributes), node.childNodes.map(plain)];
}

globalThis.document = /** @type {any} */ ({
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  documentElement: new Element("html"),
  addEventListener() {},
});
