# Two commands do all set-up on a fresh Debian 12: `make serve` and `make test`. Both are quick when nothing changed.
MODEL ?= models/tessera-tiny
PORT  ?= 8000
FLAGS ?=
# The shipped model speaks as Kimi does: thoughts and tool calls in its own marks, which the answer shows apart.
SPEAKS := $(if $(filter models/tessera-tiny,$(MODEL)),--reasoning-parser kimi_k2 --tool-call-parser kimi_k2 --enable-auto-tool-choice)

.PHONY: serve test build bench deps test-deps clean

serve: build
	@echo 'serving $(MODEL) at http://localhost:$(PORT); try:'
	@echo
	@echo "  curl -s http://localhost:$(PORT)/v1/chat/completions -H 'Content-Type: application/json' \\"
	@echo "    -d '{\"model\": \"$(notdir $(MODEL))\", \"messages\": [{\"role\": \"user\", \"content\": \"Who are you?\"}]}'"
	@echo
	@exec ./bin/tessera serve $(MODEL) --served-model-name $(notdir $(MODEL)) --port $(PORT) $(SPEAKS) $(FLAGS)

build: deps
	@cmake --preset app $(QUIET)
	@cmake --build --preset app
	@tools/install-bin build/app/bin

test: test-deps
	@cmake --preset release $(QUIET)
	@cmake --build --preset release
	@tools/install-bin build/release/bin
	@ctest --preset release -j $$(nproc)

# Benchmarks are built with the tests; run them one by one on a quiet machine: build/release/bin/backend_cpu_bench --help
bench: test-deps
	@cmake --preset release $(QUIET)
	@cmake --build --preset release
	@ls build/release/bin/*_bench

deps:
	@tools/install-deps
test-deps:
	@tools/install-deps --test

clean:
	rm -rf build bin

QUIET := --log-level=WARNING
