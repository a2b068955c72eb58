#!/bin/sh
# Writes the locks: names, versions and hashes, and no address of any registry.
set -eu
uv=$1
cd "$(dirname "$0")/.."

compile() {
    output=$1
    shift
    echo "lock: $output"
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
        --output-file "$output" "$@"
}

# The development lock is resolved first and constrains the others: all of them agree.
compile requirements/dev.lock --extra dev pyproject.toml
compile requirements/runtime.lock --constraint requirements/dev.lock pyproject.toml
compile requirements/build.lock --constraint requirements/dev.lock requirements/build.in
compile requirements/node.lock --constraint requirements/dev.lock requirements/node.in
