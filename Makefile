# make run     builds Polder and serves a memory on 127.0.0.1:6379 (ARGS='--port 7000' adds flags)
# make test    runs every layer of tests
# make build   leaves target/release/polder
# make wheel   leaves the Python package in target/wheels (maturin is wanted: pip install maturin)
# make install PREFIX=/usr/local   installs the program, the C library and its headers (DESTDIR as usual)
#
# Each installs what it lacks by itself on Debian 12 (see xtask/needs.sh) and says nothing when nothing is missing.

.PHONY: run test build install wheel needs-build needs-test
.DEFAULT_GOAL := build

run: build
	$${CARGO_TARGET_DIR:-target}/release/polder serve $(ARGS)

test: needs-test
	@cargo run --quiet --package xtask -- test

build: needs-build
	cargo build --release --locked --package polder

PREFIX ?= /usr/local

install: build
	@DESTDIR="$(DESTDIR)" capi/build.sh $(PREFIX)
	install -D -m 755 $${CARGO_TARGET_DIR:-target}/release/polder $(DESTDIR)$(PREFIX)/bin/polder

wheel: needs-build
	@python/build.sh $${CARGO_TARGET_DIR:-$(CURDIR)/target}/wheels

needs-build:
	@xtask/needs.sh build

needs-test: needs-build
	@xtask/needs.sh test
