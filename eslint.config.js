// Rules for the JavaScript of the dashboard: the same limits as for Python, see tests/house.

// Words that say nothing of what a name holds or does, as in tests/house/test_names.py.
const BANNED =
  "alone among asked calm chosen each firsts found given hands held hire kin knock look made mark marks " +
  "mine odd one pace place places said strangers stretch taken telling there told twice wanted";

export default [
  { ignores: ["node_modules", ".venv", ".cache", "dist"] },
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "max-lines-per-function": ["error", { max: 40, skipBlankLines: true, skipComments: true }],
      "max-len": ["error", { code: 110 }],
      "id-denylist": ["error", ...BANNED.split(" ")],
      complexity: ["error", 12],
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-alert": "error",
      "no-console": "error",
      "no-eval": "error",
      "no-param-reassign": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text enters by textContent, so that data cannot become markup." },
        { property: "outerHTML", message: "Text enters by textContent, so that data cannot become markup." },
        { property: "insertAdjacentHTML", message: "Text enters by textContent; use append." },
      ],
      "no-shadow": "error",
      "no-unused-expressions": "error",
      "no-unused-vars": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
];
