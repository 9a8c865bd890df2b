# make run       builds Polder and serves a memory on 127.0.0.1:6379 (ARGS='--port 7000' adds flags)
# make test      runs every layer of tests
# make build     leaves target/release/polder, and in target/dist all that is installed
# make install   installs program, C library, headers, manual pages, completions, a sample polder.conf and a systemd unit
#                below PREFIX=/usr/local (DESTDIR as usual); after `make build` it builds nothing: sudo make install
# make uninstall removes them again
# make deb       leaves Debian packages in target/deb (after `make build`)
# make wheel     leaves the Python package in target/wheels (maturin is wanted: pip install maturin)
#
# Each installs what it lacks by itself on Debian 12 (see xtask/needs.sh) and says nothing when nothing is missing.

.PHONY: run test build program install uninstall deb wheel needs-build needs-test
.DEFAULT_GOAL := build

PREFIX ?= /usr/local
# debug builds in a minute, for trying the packaging itself.
PROFILE ?= release
TARGET := $(or $(CARGO_TARGET_DIR),target)
export PREFIX DESTDIR SYSCONFDIR

# All that the program, the library and their pages are made of.
CRATES := base shm values wire table storage hub calls commands runtime persist replica admin script engine protocols server client app capi
SOURCES := Cargo.toml Cargo.lock README.md CHANGELOG.md LICENSE packaging/build.sh packaging/polder.conf packaging/polder.service \
	capi/build.sh capi/polder.3 capi/polder_client.3 $(shell find $(CRATES) docs -name '*.rs' -path '*/src/*' -o -name '*.lua' -path '*/src/*' \
	-o -name Cargo.toml -o -name '*.h' -path '*/include/*' -o -name '*.md' -path 'docs/*')
DIST := $(TARGET)/dist/.built-$(PROFILE)

run: program
	$(TARGET)/$(PROFILE)/polder serve $(ARGS)

test: needs-test
	@cargo run --quiet --package xtask -- test

program: needs-build
	cargo build --locked --package polder $(if $(filter release,$(PROFILE)),--release)

build: $(DIST)

$(DIST): $(SOURCES)
	@command -v cargo >/dev/null && xtask/needs.sh build || true
	@packaging/build.sh $(PROFILE)

install: $(DIST)
	@packaging/install.sh install

uninstall:
	@packaging/install.sh uninstall

deb: $(DIST)
	@packaging/deb.sh

wheel: needs-build
	@python/build.sh $${CARGO_TARGET_DIR:-$(CURDIR)/target}/wheels

needs-build:
	@xtask/needs.sh build

needs-test: needs-build
	@xtask/needs.sh test
