#!/usr/bin/env python3
"""Render every template with every dialogue, and every snippet, with Python's jinja2 set up as transformers does.

Usage: make_template_goldens.py            (needs jinja2; writes template_goldens.json and snippet_goldens.json beside it)

The C++ tests compare with the two files and need no Python. What jinja2 refuses is recorded as {"error": true}.
"""
import json
import pathlib
import sys
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "models"
NOW = datetime(2026, 3, 7, 15, 4, 5, tzinfo=timezone.utc)  # 1772895845
TOKENS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


class Generation(jinja2.ext.Extension):
    """{% generation %}: transformers marks the text between as the assistant's; rendered, it is that text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_inner"), [], [], body).set_lineno(line)

    def _inner(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def render(env, source, names):
    try:
        return {"text": env.from_string(source).render(**names)}
    except Exception as failure:  # whatever a template may throw
        return {"error": True, "python": f"{type(failure).__name__}: {failure}"}


def main():
    env = environment()
    dialogues = json.loads((HERE / "dialogues.json").read_text(encoding="utf-8"))
    templates = {path.name: path for path in sorted((HERE / "templates").glob("*.jinja"))}
    templates["tessera-tiny"] = MODELS / "tessera-tiny" / "chat_template.jinja"
    goldens, refused = [], 0
    for name, path in templates.items():
        source = path.read_text(encoding="utf-8")
        for dialogue in dialogues:
            names = {**TOKENS, **dialogue.get("kwargs", {}), "messages": dialogue["messages"],
                     "tools": dialogue.get("tools"), "documents": None,
                     "add_generation_prompt": dialogue.get("add_generation_prompt", True)}
            if "tools_ts_str" in source and "tools_ts_str" in dialogue:
                names["tools_ts_str"] = dialogue["tools_ts_str"]
            goldens.append({"template": name, "dialogue": dialogue["name"], **render(env, source, names)})
            refused += "error" in goldens[-1]
    (HERE / "template_goldens.json").write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    snippets = json.loads((HERE / "snippets.json").read_text(encoding="utf-8"))
    results = [{"source": source, **render(env, source, snippets["names"])} for source in snippets["sources"]]
    (HERE / "snippet_goldens.json").write_text(
        json.dumps({"names": snippets["names"], "results": results}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(goldens)} renderings ({refused} refused), {len(results)} snippets "
          f"({sum('error' in r for r in results)} refused), jinja2 {jinja2.__version__}", file=sys.stderr)


main()
