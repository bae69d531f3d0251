"""Checks of labs: a hint after each wrong try, an error named, a choice explained at the end."""

import ast
import re

import nbformat
import pytest
from lab_sheets import assigned, check, exception_test, hints, run, sheet
from nbclient import NotebookClient

import chapters
import labs
from fedlab_mini.engine import progress

pytestmark = pytest.mark.usefixtures("own_settings")
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]


MISTAKES = {  # of a lab: question, what somebody writes, what the check calls it
    "02_shapley_theory": [
        ("q1", "left_out = [36, 42, 48]", "what the others earn is written"),
        ("q1", "shares = [28.5, 31.5, 10.5]", "first in two of the six orderings is counted once"),
        ("q2", "change = [31, 28, 13]", "the new shares are written"),
        ("q4", "one_order = [0, 20, 30, 50, 40, 61, 70, 90]", "a pair earns more or less"),
    ],
    "03_retraining_baselines": [
        ("q1", "hours_left_out = 92 * 93 / 360", "left out is counted as trained"),
        ("q1", "hours_left_out = 92 * 91 / 360", "the run with everybody is forgotten"),
        ("q3", "spread['alpha'] = 0.5", "a step too high"),
        ("q4", "cut['seed'] = 4", "the cell was not run again"),
        ("q6", "twins = max(pairs, key=gone.get)", "the pair with the largest loss is taken"),
        ("q8", "stderr = values.std(0, unbiased=False) / 5**0.5", "squares are divided by"),
    ],
    "01_federated_averaging": [
        ("q1", "updates = [2, 5]", "a client's new model is written"),
        ("q1", "server_step = 3", "the new model is written"),
        ("q4", """
def partial_round(theta, updates, clients, sizes):
    return theta + updates.mean(0)
""", "all updates get the same weight"),
        ("q7", "most_missed = int(alone(*clinics).argmin())", "alone is called and not missed"),
    ],
    "04_cgsv": [
        ("q1", """
def scores(updates, weights):
    return normalize(updates, dim=1) @ normalize(weights @ updates, dim=0)
""", "the updates are added before they are scaled"),
        ("q1", """
def scores(updates, weights):
    units = normalize(updates, dim=1)
    return units @ normalize(units.sum(0), dim=0)
""", "the weights are forgotten in the sum"),
        ("q1", """
def scores(updates, weights):
    units = normalize(updates, dim=1)
    return units @ (weights @ units)
""", "not divided by the length of the sum"),
        ("q4", "mean_cosine = 0.4**2", "the length is squared"),
        ("q5", "lowest_value = lowest_cosine", "the lowest cosine is written again"),
        ("q6", "first = first - 1", "rounds are counted from 0"),
        ("q6", """
others = history.scores.sum(1) - history.scores[:, 3]
first = int((history.scores[:, 3] < 0.3 * others).nonzero()[0]) + 1
""", "compared with the sum of the others"),
        ("q7", """
for name in recalls:
    h = fm.train(fed, net, getattr(fm, name)(), rounds=48, seed=1)
    recalls[name] = float((net.predict(h.theta, x[y >= 8]) == y[y >= 8]).double().mean())
""", "local=local or the seed is left out"),
        ("q7", """
for name in recalls:
    h = fm.train(fed, net, getattr(fm, name)(), rounds=48, local=local, seed=1)
    recalls[name] = float((net.predict(h.theta, x) == y).double().mean())
""", "all samples are counted and not the eights and nines alone"),
    ],
    "05_reinforce_frcce": [
        ("q1", "slope_a = 0.55", "the coin of B is treated as a fair one"),
        ("q2", "moved = [0.05, -0.025]", "the reward has the wrong sign"),
        ("q3", """
right = slopes
slopes = lambda losses, omega: right(losses, omega) * omega * (1 - omega)
""", "with respect to the logit"),
        ("q5", "fooled = {**fooled, 'seed': 0}", "only the first runs are tried"),
        ("q7", """
for baseline in separated:
    ends = [learn(baseline, progress, run) for run in range(1, 21)]
    separated[baseline] = sum(bool(e[[1, 4]].max() < e[[0, 2, 3, 5]].min()) for e in ends)
""", "the runs are counted from 1"),
        ("q8", """
auc = []
for seed in (0, 3, 4):
    history = fm.train(partial(seed), net, fm.FRCCE(per_round=4), rounds=40, seed=seed)
    auc.append(fm.detection_auc(history.scores[-1], flipped))
mean_auc = {**mean_auc, "scores": sum(auc) / 3}
""", "the run gets no seed=seed or no local=sgd"),
    ],
    "06_reinforce_fldve": [
        ("q1", "plain = 5 / 3", "the weights are not squared"),
        ("q2", "listen = lambda omega: omega.softmax(0)", "the softmax of omega is taken"),
        ("q3", "since = 30", "the slider still stands at the last round"),
        ("q5", "first = [0.2, 0, 0.2]", "omega is not subtracted from the coins"),
        ("q7", """
for name, part in parts.items():
    other = replace(clinics, validation=(x[part], y[part]))
    h = fm.train(other, net, fm.FLDVE(), rounds=48, seed=2)
    saved[name] = float(h.accuracy[-5:].mean())
""", "local=five or seed=2 is left out"),
    ],
    "07_fedccea": [
        ("q1", "index = [0.6, 0.6, 0]", "the products are not divided by their sum"),
        ("q1", "today = [0.5, 0.125, 0]", "the old sum is the divisor"),
        ("q5", "scarce = [1, 1, 1, 0, 0, 0]", "only clients of low quality were lowered"),
        ("q6", """
share = explained
explained = lambda guess, truth, curve: max(0, share(guess, truth, curve))
""", "a share below 0 is cut off at 0"),
        ("q7", """
halves = torch.zeros(2, 60)
halves[0, :30] = halves[1, 30:] = 1
pair = fm.methods.fit_aam(graded.sizes, graded.accuracy, used=halves, **fits).model.omega
agreement["graded"] = float(torch.corrcoef(pair)[0, 1])
""", "the qualities are correlated and not their ranks"),
    ],
    "09_label_standardisation": [
        ("q1", "with_margin = 0.8", "in which all three are classified wrongly is left out"),
        ("q4", """
smaller = smallest_margin
smallest_margin = lambda group, wanted: 100 * smaller(group, wanted)
""", "the number of hundredths is returned"),
    ],
    "12_replication": [
        ("q7", "theirs = stored", "or the whole entry"),
        ("q8", "robust = 'not shown'", "or a word is written"),
    ],
    "13_adversaries": [
        ("q1", "needed = 1 / 3", "the share of one name is written"),
        ("q1", "needed_banzhaf = 2 / 3", "orderings are taken where coalitions are asked for"),
        ("q2", "names_get = lambda k: [1, k / 2**k, 1 / k]", "the partner is forgotten"),
        ("q3", "least_noise = 1 / 0.95 - 1", "the two lengths are added"),
        ("q4", "sends = lambda known: known.last_step", "the step is sent as it came"),
        ("q4", "sends = lambda known: known.update", "Fir trains after all"),
        ("q4", """
def sends(known):
    step = known.last_step
    size = step.square().mean().sqrt()
    step += 0.5 * size * torch.randn(step.shape, generator=known.generator)
    return step
""", "the noise is added into .*known.last_step.* itself"),
        ("q5", "accused = {name: {k + 1 for k in accused[name]} for name in accused}",
         "ids are counted from 1"),
        ("q6", "suspects = lambda round, step: fm.cosines(round.updates, step) > 0.95",
         "the limit stays above the cosine"),
        ("q6", "suspects = lambda round, step: fm.cosines(round.updates, step) > 0.85",
         "the limit is lowered from the first round on"),
        ("q6", """
def suspects(round, last_step):
    units = torch.nn.functional.normalize(round.updates, dim=1)
    return (units @ units.T).mean(1) < 0.4
""", "whoever is unlike the others is named, and this is Cedar"),
        ("q7", "fir_paid = {**fir_paid, 'blue team': fir_paid['nobody looks']}",
         "is forgotten, so that naming has no effect"),
    ],
    "10_head_to_head": [
        ("q4", """
def leaving(scores, generator):
    return (scores + 0.1 * torch.rand(len(scores), generator=generator)).argsort()
""", "noise is added that is larger than a difference"),
        ("q4", """
def leaving(scores, generator):
    shuffle = torch.randperm(len(scores))
    return shuffle[scores[shuffle].argsort(stable=True)]
""", "drawn without the generator"),
        ("q5", "mine = lambda round, server: -(round.updates @ gradient(round, server))",
         "the sizes are left out"),
        ("q7", "exact_epochs = 2**6 * 240", "counted as if one client trained"),
    ],
    "08_sfedavg": [
        ("q1", "values = with_zero", "the first client adds to 0"),
        ("q1", "relevance = [0.05 + 0.75 * v for v in values]", "the two factors are exchanged"),
        ("q2", "temperature_for = lambda gap, ratio: gap / ratio", "the logarithm is forgotten"),
        ("q4", "wait = wait - 1", "only the rounds between the two selections are counted"),
        ("q5", "asked = {t: share / 3 for t, share in asked.items()}", "number of all selections"),
        ("q5", """
for t in asked:
    asked[t] = run(t).selected.double().mean(0)
""", "all rounds are counted and not the last 24"),
        ("q5", "favourites = {k + 1 for k in favourites}", "are counted from 1 and not from 0"),
        ("q6", """
def longest_absence(selected):
    return (~selected.bool()).sum(0)
""", "all absences are counted and not the longest stretch"),
        ("q6", """
def longest_absence(selected):
    now = longest = torch.zeros(selected.shape[1], dtype=torch.long)
    for row in selected:
        longest = torch.where(row, torch.maximum(longest, now), longest)
        now = torch.where(row, 0, now + 1)
    return longest
""", "the stretch at the end of the table is forgotten"),
        ("q6", """
counted = longest_absence
longest_absence = lambda selected: counted(selected) + 1
""", "the round of a selection is counted, too"),
        ("q7", """
def learn(phi, chosen, sv):
    phi[chosen] = 0.75 * phi[chosen] + 0.25 * sv
    return phi
""", "the relevances that are given are overwritten"),
    ],
}  # fmt: skip


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What a sheet knows after its first cell; nobody has tried anything yet."""
    monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
    student = sheet("04_cgsv")
    return run(nbformat.from_dict({**student, "cells": student.cells[:1]}), tmp_path)


def test_a_question_of_choice_counts_tries_and_is_then_explained(names):
    answers = ["ab", "AB", {"b", "c"}, "ad", "ac"]
    seen = [check("q8", names | {"wrong": answer})._repr_html_() for answer in answers]
    assert ["1 of 3 tries" in text for text in seen] == [True, True, False, False, False]
    assert "2 of 3 tries" in seen[2]
    assert [re.findall(r"Hint \d of \d", text) for text in seen] == [
        ["Hint 1 of 2"], ["Hint 1 of 2"], ["Hint 2 of 2"], [], []
    ]  # fmt: skip
    assert ["echoes the majority" in text for text in seen] == [False, False, False, True, True]
    assert "passed" in seen[4]


def test_each_wrong_try_unfolds_the_next_hint(names):
    tried = [..., 0.3, "0.3", ..., 0.5, 0.6, 0.7, 0.4, 0.8]
    seen = [check("q4", names | {"mean_cosine": answer}) for answer in tried]
    (told,) = hints(sheet("04_cgsv"), "q4")
    due = [[], 1, 1, [], 2, 3, 3, [], 3]
    for result, place in zip(seen, due, strict=True):  # on a page, and in marks and a console
        shown = re.findall(r"<summary>Hint (\d) of 3</summary>(.*?)</d", result._repr_html_())
        assert shown == (place and [(str(place), told[place - 1])])
        assert [hint in result.summary() for hint in told] == [place == k for k in (1, 2, 3)]
        assert not any(word in result.summary() for word in ("raise", "NotYet", "Traceback"))
    assert "not answered yet" in seen[0]._repr_html_()
    assert "passed" in seen[-2]._repr_html_()


def test_a_check_shows_no_bar_and_names_a_wrong_type(names, monkeypatch):
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    seen = []

    def hidden() -> bool:
        return progress.bar([], "rounds").disable

    check("q1", names | {"scores": lambda updates, weights: seen.append(hidden())})
    assert set(seen) == {True}
    assert not hidden()
    result = check("q1", names | {"scores": lambda updates, weights: weights.float() @ updates})
    assert "write .double() behind what is not" in result.summary()


@pytest.mark.parametrize("lab", MISTAKES)
def test_the_first_hint_names_the_mistake_that_was_made(lab, tmp_path, monkeypatch):
    names = run(assigned(lab)[1], tmp_path)
    for question, mistake, called in MISTAKES[lab]:
        monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
        made = {**names, **{name: dict(x) for name, x in names.items() if type(x) is dict}}
        exec(mistake, made)
        text = check(question, made)._repr_html_()
        assert re.search(f"Hint 1 of 3.*{called}", text), (question, mistake, text)
        assert len(re.sub("<details>.*?</details>|<.*?>", "", text)) < 200, text


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_every_check_has_its_hints_and_they_name_no_letter_of_the_answer(source):
    student, text = sheet(source.stem), source.read_text(encoding="utf-8")
    keys = dict(re.findall(r"def (test_\w+)\(\w+\):\n    chosen\(\w+, \"(\w+)\"\)", text))
    every = student.metadata["otter"]["tests"]
    (hidden,) = re.findall(r"chosen\(\w+, '([^']+)'\)", " ".join(every.values()))
    assert len(hidden) == 16, "the sheet tells its key"
    for question, test in every.items():
        checks = re.findall(r"^def (test_\w+)", test, re.MULTILINE)
        for name, told in zip(checks, hints(student, question), strict=True):
            assert len({*told}) == len(told) == (2 if name in keys else 3), (question, name)
            assert told[0].startswith("Look at "), (question, name)
            assert re.search(" (Two|Three) mistakes are common: ", told[0]), (question, name)
            letters = set(keys.get(name, "")) - {"a"}  # which is a word, too
            assert not letters & {*re.findall(r"\b[a-z]\b", " ".join(told))}, (question, name)


FORMS = [  # of a lab: question, what somebody writes, what the check says of its form
    ("12_replication", "q1", "verdicts = {'holds', 'not shown'}", "a set has no order"),
    ("12_replication", "q1", "verdicts = [0, 2, 1, 0, 3]", "5 of the words holds, does not hold"),
    ("02_shapley_theory", "q1", "shares = {'A': 29, 'B': 32}", "3 numbers, in the order A, B, C"),
    ("03_retraining_baselines", "q1", "hours_left_out = '23.5 hours'", "Another form is wanted"),
    ("03_retraining_baselines", "q3", "spread = 0.45", "the keys 'clients', 'seed', 'alpha'"),
    ("03_retraining_baselines", "q6", "twins = {1: 0.4, 5: 0.2}", "other values than True and"),
    (
        "06_reinforce_fldve",
        "q4",
        "few = [1, 5]",
        "values, True or False, or ids from 0 to 4; got 5",
    ),
    ("14_payments", "q7", "most_by_name = [0, 1]", "expected one id from 0 to 5; got 2"),
]


@pytest.mark.parametrize("lab", sorted({lab for lab, *_ in FORMS}))
def test_a_form_that_means_nothing_is_named_and_is_no_try(lab, tmp_path, monkeypatch):
    names = run(assigned(lab)[1], tmp_path)
    monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
    for question, answer in [(q, answer) for where, q, answer, _ in FORMS if where == lab]:
        exec(answer, made := dict(names))
        text = check(question, made).summary()
        (said,) = [said for _, q, given, said in FORMS if (q, given) == (question, answer)]
        assert said in text, text
        assert "Hint" not in text, text
    assert exception_test().ExceptionTestFile.tried == {}


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_hints_speak_of_names_that_the_sheet_has(source):
    """One that only the solution sets would say nothing to a student."""
    student, solution = assigned(source.stem)
    text = "\n".join(cell.source for cell in student.cells)
    code = [cell.source for cell in solution.cells if cell.cell_type == "code"]
    nodes = [node for part in code for node in ast.walk(ast.parse(part))]
    stored = {node.id for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)
              and isinstance(node, ast.Name)}  # fmt: skip
    unknown = sorted(name for name in stored if not re.search(rf"\b{name}\b", text))
    only = "|".join(unknown) or "(?!)"
    spoken = re.compile(rf"`({only})`|\b({only})(\.\w|\[| holds\b| is a | is largest| is written)")
    for question in student.metadata["otter"]["tests"]:
        for hint in [hint for told in hints(student, question) for hint in told]:
            assert not spoken.search(hint), (question, hint)


def test_an_error_in_a_cell_is_named_and_is_no_missing_answer(tmp_path):
    """In a kernel, which compiles a cell in its own way."""
    cells = [
        ("mean_cosine = ...", 4, "not answered yet"),
        ("mean_cosine = total / 5", 4, "NameError: name 'total' is not defined"),
        ("mean_cosine = (", 4, "SyntaxError: "),
        ("mean_cosine = 0.3", 4, "Hint 1 of 3"),
        ("mean_cosine = 1 / 0", 4, "ZeroDivisionError: division by zero"),  # 0.3 is left over
        ("1 / 0", 4, "ZeroDivisionError: division by zero"),
        ("mean_cosine = 0.3\nother = total", 2, "not answered yet"),
        ("mean_cosine = 0.4", 4, "passed"),
        ("def scores(updates, weights):\n    return weights\nscores(1)", 1, "TypeError: scores()"),
        ("def scores(updates, weights):\n    return total", 1, "cannot be used as it stands"),
    ]
    student = sheet("04_cgsv")
    student.cells = student.cells[:1]
    for code, question, _ in cells:
        for text in (code, f'print(grader.check("q{question}").summary())'):
            student.cells.append(nbformat.v4.new_code_cell(text))
    for (code, _, wanted), text in zip(cells, said_by(student, tmp_path), strict=True):
        assert wanted in text, f"{code}: {text}"
        assert not re.search(r"Traceback|\.py|Hint.*raised", text), text


def said_by(student, folder):
    """What every second cell prints, in a kernel."""
    nbformat.write(student, folder / "mine.ipynb")
    where = {"metadata": {"path": str(folder)}}
    start = chapters.KERNEL_START
    client = NotebookClient(student, startup_timeout=start, resources=where, allow_errors=True)
    chapters.patiently(client.execute)
    cells = student.cells[2::2]
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]


def test_the_bug_that_a_sheet_gives_is_no_try(tmp_path):
    student = sheet("01_federated_averaging")
    at = [cell.source for cell in student.cells].index('grader.check("q4")')
    bug = student.cells[at - 1].source
    student.cells = student.cells[:1]
    for source in (bug, bug, bug.replace("sizes.sum()", "len(clients)")):
        for text in (source, 'print(grader.check("q4").summary())'):
            student.cells.append(nbformat.v4.new_code_cell(text))
    said = said_by(student, tmp_path)
    assert ["not changed yet: model: tensor" in text for text in said] == [True, True, False]
    assert [len(re.findall("Hint 1 of 3", text)) for text in said] == [0, 0, 2]
