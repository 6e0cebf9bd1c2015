# Everything runs in an environment of its own, .venv; Python 3.11, make and a C compiler suffice.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
SHARE ?= 0
PEERS ?= $(CURDIR)/$(VENV)/bin/python
ARGS ?=

python := $(VENV)/bin/python
pip := $(python) -m pip --disable-pip-version-check install --quiet
# By a path, not by a finder: beside a folder named lazyt, such as this one, a finder would lose to it.
editable := --config-settings editable_mode=compat --editable

# The tests have a disk cache of their own and one thread per worker: two workers already fill
# the two cores of a small machine.
test_env := LAZYT_CACHE_DIR="$(CURDIR)/build/test-cache" LAZYT_THREADS=1 OMP_NUM_THREADS=1 \
	OPENBLAS_NUM_THREADS=1

# What the tests looked at, to be compared with what they see when nothing fuses. Tests that looked
# at no value are left out then (tests/recording.py), and folders whose tests are not about tensors.
values := build/values
same := --hypothesis-seed=0
on_tensors := $(addprefix tests/,amp array_api data differential distributions end_to_end errors func \
	functional index_sums integer_edges nn operator_programs optim overrides \
	peer_modules peer_samples profiler reported serialization signal tensor torch_cases transforms)

.PHONY: help demo test quick house bits cuda check bench machines ecosystem gpu generate docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a network on handwritten digits, draw the result (ARGS='--epochs 3')"
	@echo "make test    run the tests (WORKERS=2 processes, ARGS='-k softmax', SHARE=0 to 5 runs fused)"
	@echo "make house   how the package is laid out, in numbers"
	@echo "make quick   lint and test what git says has changed, in less than two minutes"
	@echo "make bits    after make test: run again without fusion, compare every value looked at"
	@echo "make cuda    compile all kinds of GPU kernels, run them on the emulator, delete their barriers"
	@echo "make check   lint, check the format, check the types"
	@echo "make bench   time lazyt, beside whichever peers are installed (ARGS='--only chain')"
	@echo "make machines  the same results as on other processors, with other compilers (ARGS='--only digests')"
	@echo "make ecosystem  which packages that import torch run (ARGS='--only timm --jobs 2')"
	@echo "make gpu     with an NVIDIA GPU: its tests and times (PEERS=python with PyTorch)"
	@echo "make gpu-rehearsal   prepare for a GPU machine without a package index, try all on the emulator"
	@echo "make generate  write what docs/generate.py makes: tables of settings and coverage, stubs"
	@echo "make docs    the same, then build the site: build/docs/index.html"
	@echo "make clean   remove what these targets made"

$(python):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lazyt needs Python 3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/examples.stamp: pyproject.toml | $(python)
	$(pip) $(editable) '.[examples]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(python)
	$(pip) $(editable) '.[dev,examples]'
	$(pip) $(editable) '.[docs]' || echo "Sphinx cannot be installed: tests do not build the site."
	@touch $@

demo: $(VENV)/examples.stamp
	$(python) examples/digits.py $(ARGS)

# Most tests about operations run kernels for any shape; a share of them, and all others, kernels
# compiled for each graph (tests/conftest.py). LAZYT_TIER=1 make test: all of them.
test: $(VENV)/dev.stamp
	rm -rf $(values)
	$(test_env) $(python) -m pytest -x -q -n $(WORKERS) --dist worksteal --share $(SHARE) \
		--record-values $(values) $(same) tests $(ARGS)

# Of the changed files and what imports them (tests/quick.py); ARGS='--since HEAD~3 --seconds 60'.
quick: $(VENV)/dev.stamp
	$(test_env) $(python) -m tests.quick --workers $(WORKERS) $(ARGS)

# Modules, lines, folders, imports in circles, modules that a call visits (tests/house.py).
house: $(VENV)/dev.stamp
	$(python) -m tests.house

# The values of the last `make test`, computed by other kernels: those for any shape, one operation at
# a time.
bits: $(VENV)/dev.stamp
	LAZYT_EAGER=1 LAZYT_TIER=0 $(test_env) $(python) -m pytest -q -n $(WORKERS) --dist worksteal \
		--compare-values $(values) $(same) $(on_tensors) $(ARGS)

cuda: $(VENV)/dev.stamp
	$(pip) $(editable) '.[cuda]'
	$(test_env) $(python) -m tests.cuda.corpus --workers $(WORKERS) $(ARGS)

check: $(VENV)/dev.stamp
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy --strict lazyt tests bench/gpu

bench: $(VENV)/examples.stamp
	$(python) -m lazyt bench $(ARGS)

# As on other processors, as far as this machine can; LAZYT_AARCH64=FOLDER names one with an aarch64 Python.
machines: $(VENV)/examples.stamp
	$(python) bench/machines.py $(ARGS)

# Installs some 150 packages, without PyTorch, into build/ecosystem (bench/ecosystem/README.md).
ecosystem: $(VENV)/examples.stamp
	$(python) -m bench.ecosystem $(ARGS)

# On a machine with an NVIDIA GPU: the tests of CUDA, then the times, as JSON under bench/results/.
gpu: $(VENV)/gpu.stamp
	$(test_env) $(python) -m pytest -q -n $(WORKERS) -m gpu tests
	$(test_env) $(python) -m pytest -q -n $(WORKERS) tests/cuda
	LAZYT_BENCH_PYTHON="$(PEERS)" $(python) bench/gpu/measure.py $(ARGS)

# For one that reaches no package index: bench/gpu/README.md.
gpu-rehearsal: $(VENV)/gpu.stamp
	bash bench/gpu/prepare.sh --python $(python) $(ARGS)

$(VENV)/gpu.stamp: pyproject.toml | $(python)
	$(pip) $(editable) '.[dev,examples,cuda]'
	@touch $@

generate: $(VENV)/examples.stamp
	$(python) docs/generate.py

$(VENV)/docs.stamp: pyproject.toml | $(python)
	$(pip) $(editable) '.[docs,examples]'
	@touch $@

# Warnings, links that lead nowhere among them, are errors.
docs: generate $(VENV)/docs.stamp
	$(python) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "built: build/docs/index.html"

clean:
	rm -rf $(VENV) .gpu build dist docs/reference/api docs/pictures demo-output lazyt_compiler.egg-info .pytest_cache .mypy_cache .ruff_cache
	find lazyt tests bench docs examples -name __pycache__ -type d -prune -exec rm -rf {} +
