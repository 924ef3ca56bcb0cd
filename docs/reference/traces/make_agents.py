#!/usr/bin/env python3
"""Writes agents.jsonl: sixteen coding agents over a quarter of an hour. Lengths are drawn, not recorded; the
shapes they are drawn from are written beside them. Usage: make_agents.py > agents.jsonl"""
import json
import random

draw = random.Random(2026)


def between(low, middle, high):  # log-normal around the middle, within the ends
    return int(min(high, max(low, draw.lognormvariate(0, 0.7) * middle)))


print(json.dumps({"tessera_trace": 1, "name": "agents", "about":
                  "16 coding agents in 15 minutes: a system prompt with tools that all share, a task, then turns of "
                  "thought and a tool call, whose result (a file, a listing, a test log) the next turn brings. Drawn "
                  "by make_agents.py, not recorded."}))
at = 0.0
for session in range(16):
    at += draw.expovariate(1 / 50)  # somebody starts one every 50 s
    tokens = 9200
    for turn in range(between(4, 14, 40)):
        if turn == 0:
            line = {"session": session, "at_s": round(at, 2), "prefix": "tools", "prefix_tokens": 9200,
                    "new_tokens": between(200, 900, 6000)}  # a task, sometimes with a file
        else:
            big = draw.random() < 0.2  # a whole file or a long log, else a listing, a few lines, an exit status
            line = {"session": session, "wait_s": round(draw.lognormvariate(0, 1) * (8 if big else 1.2), 2),
                    "new_tokens": between(1500, 4000, 12000) if big else between(40, 450, 3000)}
        answer = draw.random() < 0.15  # code is written, else a thought and a call
        line["output_tokens"] = between(400, 900, 4000) if answer else between(40, 130, 600)
        tokens += line["new_tokens"] + line["output_tokens"]
        if tokens > 120_000:
            break
        print(json.dumps(line))
