#!/usr/bin/env python3
"""Dequantises rows of models/tessera-tiny with nothing but the format's definition, for golden_rows_test.cpp.

    src/checkpoint/testdata/make_tiny_rows.py models/tessera-tiny > src/checkpoint/testdata/tiny_rows.json

Every value is exact in f32 (bf16, or a 4-bit code times a bf16 scale), so the test compares for equality.
"""
import glob
import json
import struct
import sys

ROWS = [("model.embed_tokens", 0), ("model.embed_tokens", 4095), ("lm_head", 4034),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa", 575), ("model.layers.0.mlp.down_proj", 17),
        ("model.layers.1.mlp.gate", 15), ("model.layers.1.mlp.experts.0.gate_proj", 0),
        ("model.layers.2.mlp.experts.7.up_proj", 100), ("model.layers.4.mlp.experts.15.down_proj", 255),
        ("model.layers.3.mlp.shared_experts.up_proj", 3)]
VECTORS = ["model.norm", "model.layers.2.self_attn.kv_a_layernorm", "model.layers.1.mlp.gate.e_score_correction_bias"]


def tensors(folder):
    table = {}
    for path in sorted(glob.glob(folder + "/*.safetensors")):
        blob = open(path, "rb").read()
        size = struct.unpack("<Q", blob[:8])[0]
        for name, entry in json.loads(blob[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                table[name] = (entry, blob[8 + size + begin:8 + size + end])
    return table


def bf16(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def row_of(table, name, row):
    if name + ".weight" in table:
        entry, data = table[name + ".weight"]
        width = entry["shape"][1] * 2
        return bf16(data[row * width:(row + 1) * width])
    entry, packed = table[name + ".weight_packed"]
    words = entry["shape"][1]
    scales = bf16(table[name + ".weight_scale"][1][row * words // 4 * 2:(row + 1) * words // 4 * 2])
    row_words = struct.unpack("<%dI" % words, packed[row * words * 4:(row + 1) * words * 4])
    codes = [(word >> 4 * j & 15) - 8 for word in row_words for j in range(8)]
    return [code * scales[i // 32] for i, code in enumerate(codes)]


def vector_of(table, name):
    entry, data = table.get(name + ".weight") or table[name]
    return bf16(data) if entry["dtype"] == "BF16" else list(struct.unpack("<%df" % (len(data) // 4), data))


def summary(values):  # enough to notice any wrong nibble, without a large file
    return {"size": len(values), "first": values[:12], "last": values[-4:],
            "weighted": sum((i % 13 + 1) * v for i, v in enumerate(values))}


table = tensors(sys.argv[1])
print(json.dumps({"rows": [dict(name=n, row=r, **summary(row_of(table, n, r))) for n, r in ROWS],
                  "vectors": [dict(name=n, **summary(vector_of(table, n))) for n in VECTORS]}, indent=1))
