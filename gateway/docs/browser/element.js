/** A new element with these properties and children. */
export function element(name, properties, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}
