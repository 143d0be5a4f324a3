import { z } from "zod";
import type { Operation } from "../operations/operations.js";
import type { Json } from "./read.js";

/** The example of an operation: its own, or the examples of its fields. */
export function exampleRequest({ method, path, params, fields, example, requestHeaders, inputSource }: Operation) {
  const examples = [...fields].flatMap(([name, { example }]) =>
    example === undefined || params.includes(name) ? [] : [[name, example] as const],
  );
  /** The query or body. */
  const input: Json = example ?? Object.fromEntries(examples);
  const values = params.map((name) => fields.get(name)?.example ?? `{${name}}`);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) query.set(name, String(value));
  const target = params.reduce<string>((url, name, index) => url.replace(`{${name}}`, String(values[index])), path);
  const hasBody = inputSource === "body";
  const declared = Object.entries(requestHeaders).map(([name, schema]) => [name, z.toJSONSchema(schema).example]);
  return {
    method,
    /** Values of the path's parameters. */
    values,
    input,
    target: inputSource === "query" && query.size > 0 ? `${target}?${query}` : target,
    /** Except the key's. */
    headers: [["Content-Type", hasBody ? "application/json" : undefined], ...declared].filter(
      ([, value]) => value !== undefined,
    ),
    body: hasBody ? input : undefined,
  };
}

type Example = ReturnType<typeof exampleRequest>;

/**
 * The `x-codeSamples` of an operation. They use the variables GUEST_FORMS_BASE_URL and GUEST_FORMS_API_KEY, and fail if the
 * status is not 2xx.
 */
export function codeSamples(operation: Operation): Json[] {
  const example = exampleRequest(operation);
  return [
    { lang: "bash", label: "curl", source: curl(example) },
    { lang: "javascript", label: "JavaScript", source: javascript(example).join("\n") },
    { lang: "typescript", label: "TypeScript SDK", source: typescript(operation, example).join("\n") },
    { lang: "python", label: "Python", source: python(example).join("\n") },
    { lang: "php", label: "PHP", source: php(example).join("\n") },
    { lang: "java", label: "Java", source: java(example).join("\n") },
    { lang: "csharp", label: "C#", source: csharp(example).join("\n") },
  ];
}

function curl({ method, target, headers, body }: Example): string {
  // curl sends POST if there is a body, otherwise GET.
  const flag = method === (body ? "POST" : "GET") ? "" : `-X ${method} `;
  return [
    `curl -sS --fail-with-body ${flag}"$GUEST_FORMS_BASE_URL${target}"`,
    '-H "Authorization: Bearer $GUEST_FORMS_API_KEY"',
    ...headers.map(([name, value]) => `-H "${name}: ${value}"`),
    ...(body ? [`-d '${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}'`] : []),
  ].join(" \\\n  ");
}

const unlessGet = ({ method }: Example, line: string) => (method === "GET" ? [] : [line]);

const indent = (spaces: number, lines: readonly string[]) => lines.map((line) => " ".repeat(spaces) + line);

/** Lines of the body, as a literal between two texts; none if there is no body. */
const bodyLines = (
  { body }: Example,
  [before, spaces, toLiteral, after]: [string, number, (json: string) => string, string],
): string[] => (body ? `${before}${toLiteral(JSON.stringify(body, null, spaces))}${after}`.split("\n") : []);

// An object, printed as JSON with indentation, as a literal of other languages.

/** With the final commas of its style. Valid for strings and numbers only. */
const toPython = (json: string) => json.replace(/(?<=[^,{])\n(?=\s*\})/g, ",\n");

const toJavaScript = (json: string) => toPython(json.replace(/^( +)"(\w+)":/gm, "$1$2:"));

const toPhp = (json: string) =>
  toPython(json.replace(/^( +"\w+"):/gm, "$1 =>"))
    .replace(/^\{/, "[")
    .replace(/\}$/, "]");

const javascript = (example: Example): string[] => [
  `const response = await fetch(process.env.GUEST_FORMS_BASE_URL + ${JSON.stringify(example.target)}, {`,
  ...indent(2, [
    ...unlessGet(example, `method: "${example.method}",`),
    "headers: {",
    '  Authorization: "Bearer " + process.env.GUEST_FORMS_API_KEY,',
    ...example.headers.map(([name, value]) => `  "${name}": "${value}",`),
    "},",
    ...bodyLines(example, ["body: JSON.stringify(", 2, toJavaScript, "),"]),
  ]),
  "});",
  'if (!response.ok) throw new Error(response.status + " " + (await response.text()));',
  "console.log(await response.json());",
];

const python = (example: Example): string[] => [
  "import json, os, urllib.error, urllib.request",
  "",
  "request = urllib.request.Request(",
  ...indent(4, [
    `os.environ["GUEST_FORMS_BASE_URL"] + ${JSON.stringify(example.target)},`,
    ...unlessGet(example, `method="${example.method}",`),
    "headers={",
    '    "Authorization": "Bearer " + os.environ["GUEST_FORMS_API_KEY"],',
    ...example.headers.map(([name, value]) => `    "${name}": "${value}",`),
    "},",
    ...bodyLines(example, ["data=json.dumps(", 4, toPython, ").encode(),"]),
  ]),
  ")",
  "try:",
  "    with urllib.request.urlopen(request, timeout=30) as response:",
  "        print(json.load(response))",
  "except urllib.error.HTTPError as error:",
  '    raise SystemExit(f"{error.code} {error.read().decode()}")',
];

const php = (example: Example): string[] => [
  "<?php",
  '$context = stream_context_create(["http" => [',
  ...indent(4, [
    ...unlessGet(example, `"method" => "${example.method}",`),
    '"header" => [',
    '    "Authorization: Bearer " . getenv("GUEST_FORMS_API_KEY"),',
    ...example.headers.map(([name, value]) => `    "${name}: ${value}",`),
    "],",
    ...bodyLines(example, ['"content" => json_encode(', 4, toPhp, "),"]),
    '"ignore_errors" => true,',
    '"timeout" => 30,',
  ]),
  "]]);",
  `$response = fopen(getenv("GUEST_FORMS_BASE_URL") . ${JSON.stringify(example.target)}, "r", false, $context);`,
  '[, $status] = explode(" ", stream_get_meta_data($response)["wrapper_data"][0]);',
  "$body = stream_get_contents($response);",
  'if ($status >= 300) throw new Exception("$status $body");',
  "print_r(json_decode($body, true, flags: JSON_THROW_ON_ERROR));",
];

/** The lines of a text block. Valid for JSON without backslashes only. */
const blockLines = (body: Json) => JSON.stringify(body, null, 2).split("\n");

const java = ({ method, target, headers, body }: Example): string[] => [
  "import java.net.URI;",
  "import java.net.http.*;",
  "import java.time.Duration;",
  "",
  "class Sample {",
  "  public static void main(String[] args) throws Exception {",
  ...indent(4, [
    `var url = URI.create(System.getenv("GUEST_FORMS_BASE_URL") + ${JSON.stringify(target)});`,
    "var request = HttpRequest.newBuilder(url)",
    ...indent(4, [
      '.header("Authorization", "Bearer " + System.getenv("GUEST_FORMS_API_KEY"))',
      ...headers.map(([name, value]) => `.header("${name}", "${value}")`),
      ...(method === "GET" ? [] : javaMethod(method, body)),
      ".timeout(Duration.ofSeconds(30))",
      ".build();",
    ]),
    "var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());",
    'if (response.statusCode() >= 300) throw new Exception(response.statusCode() + " " + response.body());',
    "System.out.println(response.body());",
  ]),
  "  }",
  "}",
];

const javaMethod = (method: string, body: Json | undefined): string[] =>
  body
    ? [`.method("${method}", HttpRequest.BodyPublishers.ofString("""`, ...indent(4, blockLines(body)), '    """))']
    : [`.method("${method}", HttpRequest.BodyPublishers.noBody())`];

const csharp = ({ method, target, headers, body }: Example): string[] => [
  "using System.Net.Http.Headers;",
  ...(body ? ["using System.Text;"] : []),
  "",
  `var url = Environment.GetEnvironmentVariable("GUEST_FORMS_BASE_URL") + ${JSON.stringify(target)};`,
  'var key = Environment.GetEnvironmentVariable("GUEST_FORMS_API_KEY");',
  "using var client = new HttpClient { Timeout = TimeSpan.FromSeconds(30) };",
  `using var request = new HttpRequestMessage(HttpMethod.${method[0]}${method.slice(1).toLowerCase()}, url);`,
  'request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", key);',
  // That of the body is set by its content.
  ...headers
    .filter(([name]) => name !== "Content-Type")
    .map(([name, value]) => `request.Headers.Add("${name}", "${value}");`),
  ...(body
    ? [
        'request.Content = new StringContent("""',
        ...indent(4, blockLines(body)),
        '    """, Encoding.UTF8, "application/json");',
      ]
    : []),
  "using var response = await client.SendAsync(request);",
  "var text = await response.Content.ReadAsStringAsync();",
  'if (!response.IsSuccessStatusCode) throw new Exception($"{(int)response.StatusCode} {text}");',
  "Console.WriteLine(text);",
];

const typescript = (operation: Operation, { values, input }: Example): string[] => {
  const literals = values.map((value) => JSON.stringify(value));
  if (operation.inputSource) literals.push(toJavaScript(JSON.stringify(input, null, 2)));
  return [
    'import { GuestForms } from "@guest-forms/sdk";',
    "",
    "const apiKey = process.env.GUEST_FORMS_API_KEY;",
    "const baseUrl = process.env.GUEST_FORMS_BASE_URL;",
    "const client = new GuestForms({ apiKey, baseUrl });",
    ...(CALLS[operation.name] ?? callOf("result", sdkMethod(operation), "result"))(literals.join(", ")),
  ];
};

/** Lines that call a method of the SDK and print of the result what `printed` names. */
const callOf = (result: string, method: string, printed: string) => (args: string) => [
  `const ${result} = await client.${method}(${args});`,
  `console.log(${printed});`,
];

const loopOver = (noun: string, printed: string) => () => [
  `for await (const ${noun} of client.${noun}s.list({ limit: 20 })) {`,
  `  console.log(${printed});`,
  "}",
];

/** The SDK's method, such as `forms.retrieve`. */
export const sdkMethod = ({ name }: Operation): string => name.replace(/\.get$/, ".retrieve");

/** The SDK call and the use of its result, if more than its result is printed. */
const CALLS: Record<string, (args: string) => string[]> = {
  "forms.create": (args) =>
    callOf("form", "forms.create", "form.id, form.status")(`${args}, { idempotencyKey: "booking-4711" }`),
  "forms.update": callOf("form", "forms.update", "form.checkOutDate"),
  "forms.list": loopOver("form", "form.id, form.checkInDate, form.status"),
  "forms.get": callOf("form", "forms.retrieve", "form.status"),
  "listings.list": loopOver("listing", "listing.id, listing.title"),
  "listings.get": callOf("listing", "listings.retrieve", "listing.title, listing.timezone"),
};
