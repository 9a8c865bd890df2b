#!/bin/sh
# Makes tier/src/rocks/generated.rs again: the signatures of what tier/src/rocks.rs calls, from RocksDB's own header.
# Wants bindgen, libclang and librocksdb-dev (Debian: bindgen libclang1-14 librocksdb-dev).
set -eu
cd "$(dirname "$0")/.."
functions=$(grep -o 'api\.rocksdb_[a-z_]*' tier/src/rocks.rs | sed 's/api\./--allowlist-function /' | sort -u)
# shellcheck disable=SC2086
bindgen /usr/include/rocksdb/c.h --dynamic-loading Api --dynamic-link-require-all --no-layout-tests --no-doc-comments \
    $functions -o tier/src/rocks/generated.rs
