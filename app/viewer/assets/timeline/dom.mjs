// Elements of the page. Texts of traces become text nodes only.

/**
 * @param {string} name of the element
 * @param {Record<string, any>} [properties] attributes; `onclick` and the like are listeners, false and null leave out
 * @param {...(Node | string)} children
 * @returns {any} the element
 */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children);
  return element;
}

/**
 * Lets the browser save a file.
 * @param {Blob} content
 * @param {string} name
 */
export function save(content, name) {
  const link = make("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  // The download has begun by then; the memory is given back.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * A part of the skeleton.
 * @param {Element} root
 * @param {string} name class after "timeline-"
 * @returns {HTMLElement}
 */
export function part(root, name) {
  return root.querySelector(`.timeline-${name}`);
}
