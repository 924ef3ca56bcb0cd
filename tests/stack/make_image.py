#!/usr/bin/env python3
"""Puts the running tree of the fork into an image archive, in the form of `docker save` since version 25.

    make_image.py REPOSITORY image.tar

Three layers: the upstream release with an installed copy of the package, the patched files, and the one change that somebody made with
sed in the last build step. Neither docs/ nor .git is installed; byte code lies about. Needs git, no docker.
"""
import hashlib
import io
import json
import subprocess
import sys
import tarfile

ROOT = "opt/nanoserve/"
SITE = "usr/lib/python3/dist-packages/"
STEPS = ["COPY nanoserve-1.0 /opt/nanoserve", "COPY patches/ /opt/nanoserve/", "RUN sed -i s/break/continue/ /opt/nanoserve/engine/scheduler.py"]


def files_of(repository, revision):
    listing = subprocess.run(["git", "-C", repository, "ls-tree", "-r", "-z", revision], check=True, capture_output=True).stdout
    out = {}
    for line in listing.split(b"\0"):
        if line:
            meta, path = line.split(b"\t")
            mode, _, blob = meta.split()
            content = subprocess.run(["git", "-C", repository, "cat-file", "blob", blob], check=True, capture_output=True).stdout
            out[path.decode()] = (int(mode, 8) & 0o777, content)
    return out


def tar_of(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            mode, content = files[name]
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def sha(content):
    return hashlib.sha256(content).hexdigest()


def main():
    repository, out = sys.argv[1:3]
    base, tree = files_of(repository, "v1"), files_of(repository, "running")
    installed = {name: value for name, value in base.items() if not name.startswith("docs/")}
    first = {ROOT + name: value for name, value in installed.items()}
    first.update({SITE + name: value for name, value in base.items() if name.startswith("engine/")})
    first[SITE + "nanoserve.pth"] = (0o644, b"/opt/nanoserve\n")
    last = {name for name in tree if name == "engine/scheduler.py"}
    second = {ROOT + name: value for name, value in tree.items() if base.get(name) != value and name not in last}
    second[ROOT + "engine/__pycache__/cli.cpython-311.pyc"] = (0o644, b"\0\0byte code")
    third = {ROOT + name: tree[name] for name in last}
    layers = [tar_of(first), tar_of(second), tar_of(third)]
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PYTHONPATH=/opt/nanoserve"], "WorkingDir": "/opt/nanoserve"},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(layer) for layer in layers]},
                         "history": [{"created_by": step} for step in STEPS]}).encode()
    blobs = {sha(content): content for content in [config, *layers]}

    def descriptor(kind, content):
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + sha(content), "size": len(content)}

    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                           "config": descriptor("config.v1+json", config),
                           "layers": [descriptor("layer.v1.tar", layer) for layer in layers]}).encode()
    blobs[sha(manifest)] = manifest
    documents = {"blobs/sha256/" + digest: content for digest, content in blobs.items()}
    documents["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    documents["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", manifest)]}).encode()
    documents["manifest.json"] = json.dumps([{"Config": "blobs/sha256/" + sha(config), "RepoTags": ["nanoserve:patched"],
                                              "Layers": ["blobs/sha256/" + sha(layer) for layer in layers]}]).encode()
    with open(out, "wb") as file:
        file.write(tar_of({name: (0o644, content) for name, content in documents.items()}))


if __name__ == "__main__":
    main()
