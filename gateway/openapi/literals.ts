// An object, printed as JSON with indentation, as a literal of other languages.

/** In Python, with the final commas of its style. Valid for strings and numbers only. */
export const toPython = (json: string) => json.replace(/(?<=[^,{])\n(?=\s*\})/g, ",\n");

export const toJavaScript = (json: string) => toPython(json.replace(/^( +)"(\w+)":/gm, "$1$2:"));

export const toPhp = (json: string) =>
  toPython(json.replace(/^( +"\w+"):/gm, "$1 =>"))
    .replace(/^\{/, "[")
    .replace(/\}$/, "]");
