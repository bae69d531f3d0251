# Every target installs what it needs into .venv; the work itself is done by the scripts in tools/.

PYTHON ?= python3
PIP_FLAGS ?=
CHAPTERS ?=
STAGES ?=
ALL ?=
WITH ?=

ifeq ($(OS),Windows_NT)
  RUN := .venv/Scripts/python.exe
else
  RUN := .venv/bin/python
endif
# bytecode is compiled and kept when a module is first imported: most modules of the requirements never are
unexport PYTHONDONTWRITEBYTECODE
PIP := $(RUN) -m pip install --quiet --no-compile --disable-pip-version-check $(PIP_FLAGS)

.DEFAULT_GOAL := help
.PHONY: help setup book test lab site evidence mutants notebooks labs bench clean distclean class grade gradescope room-check

help:
	@echo "make book        run every chapter on this machine, build the website, say where it is"
	@echo "make test        prove that it is true: lint, tests, every chapter, website; ALL=1 proves everything,"
	@echo "                 ALL=2 with every case and every mutant, which takes hours"
	@echo "make lab         JupyterLab on the chapters"
	@echo "make site        build the website from the committed outputs, with PDFs and a zip; nothing is run"
	@echo "make evidence    run the seeds of studies that are missing (hours); resumes"
	@echo "make mutants     break claims one by one and see each noticed; CHAPTERS='02' for some"
	@echo "make notebooks   for authors: run chapters, store their outputs"
	@echo "make labs        for authors: write the students' sheets of the labs, solutions to _build/labs"
	@echo "make class       DIR=folder: a sheet of every lab; NAMES='ann, ben meyer', or a file with a name"
	@echo "                 a line: in a folder each; LAB=4: of one lab"
	@echo "make grade       SUBMISSIONS=folder: marks in one table, a page a sheet"
	@echo "make gradescope  for teachers: an autograder a lab, to _build/labs/gradescope"
	@echo "make room-check  whether a lab can be done on this machine"
	@echo "make bench       speed beside other packages"
	@echo "make setup       only the environment .venv; WITH=flower adds Flower, Dask and Ray"
	@echo "make clean       remove what was built; make distclean removes .venv as well"
	@echo ""
	@echo "PYTHON=python3.12      the Python that a new .venv is made with (3.11 or newer)"
	@echo "PIP_FLAGS='...'        passed on to pip install"
	@echo "CHAPTERS='02 03'       some chapters only: notebooks, mutants"
	@echo "STAGES='lint core'     some stages only: lint site core oracles chapters pages, and of ALL=1"
	@echo "                       evidence types mutants rest flower parameters browser"
	@echo "FEDLAB_CHROMIUM=...    the Chromium or Chrome that prints the PDFs, if it is not found"
	@echo "FEDLAB_REPOSITORY=...  public address of the repository: pages get buttons that lead there"

setup: .venv/stamp $(if $(WITH),.venv/$(WITH))

.venv/flower: requirements-flower.txt .venv/stamp
	@echo "Installing Flower, Dask and Ray"
	@$(PIP) -r requirements-flower.txt
	@touch $@

# made again where requirements change, and where the folder was moved or copied with its .venv
ifneq ($(shell cat .venv/stamp 2>/dev/null),$(CURDIR))
.PHONY: .venv/stamp
endif
.venv/stamp: requirements.txt pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'The book needs Python 3.11 or newer, such as: make book PYTHON=python3.12')"
	@$(RUN) -m pip --version >/dev/null 2>&1 || { echo "Making the environment .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "Installing the pinned requirements; the first time this takes minutes and 4 GB of free disk"
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@echo "$(CURDIR)" > .venv/stamp

book: setup
	@$(RUN) tools/book.py

site: setup
	@$(RUN) tools/book.py --committed

test: setup
	@$(RUN) tools/check.py $(STAGES) $(if $(filter 2,$(ALL)),weekly,$(if $(ALL),all))

lab: setup
	@$(RUN) -m jupyter lab --config=tools/jupyter/jupyter_lab_config.py

evidence: setup
	@$(RUN) -m studies run --jobs 2
	@$(RUN) -m studies confirm --jobs 2

mutants: setup
	@$(RUN) tools/mutants.py $(CHAPTERS)

notebooks: setup
	@$(RUN) tools/notebooks.py $(CHAPTERS)

labs: setup
	@$(RUN) tools/labs.py

bench: setup
	@$(RUN) -m tools.benchmarks

clean:
	rm -rf _build .pytest_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf .venv fedlab_mini.egg-info

class: setup
	@$(RUN) tools/classroom.py sheets $(if $(DIR),"$(DIR)" "$(NAMES)" $(LAB))

grade: setup
	@$(RUN) tools/marking.py $(if $(SUBMISSIONS),"$(SUBMISSIONS)")

gradescope: setup
	@$(RUN) tools/classroom.py gradescope

room-check: setup
	@$(RUN) tools/classroom.py ready
